"""The doctor inside a trainer of TRL: `trainer.add_callback(DoctorCallback())`."""

import logging
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from rlzoo.doctor.following import Following

_logger = logging.getLogger(__name__)


class DoctorCallback(TrainerCallback):
    """Warns of each finding of `rlzoo doctor` once, when it first shows in what the trainer logs."""

    def __init__(self) -> None:
        self.following = Following(0, 0, "", trainer="trl")

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Knows what was logged before a run was resumed."""
        self.following = Following(0, 0, "", list(state.log_history), trainer="trl")

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **others: Any,
    ) -> None:
        """Looks at what is logged, on the main process."""
        if state.is_world_process_zero and logs:
            for finding in self.following({**logs, "step": state.global_step}):
                _logger.warning("rlzoo doctor: %s", finding.summary)
