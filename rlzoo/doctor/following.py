"""The same findings while a run goes on."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlzoo.config import Config
from rlzoo.doctor.detectors import DETECTORS, Detection, examine, standstill
from rlzoo.doctor.readers import Record, run_records, table_of, whole_records
from rlzoo.experiment.run_folder import STEP, RunFolder
from rlzoo.files import json_lines

LOOKS = 100
"""How often at most a run is looked at before it is as long again: a look takes as long as it has steps."""
LIVE = tuple(detector for detector in DETECTORS if detector.live)
"""Detectors whose findings later steps do not take back: all but `idle_learning_rate`, which asks about a whole run."""


@dataclass
class NewLines:
    """The records that a growing file got since it was last read; of one that was cut meanwhile, all."""

    path: Path
    read_to: int = 0

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        if not self.path.is_file():
            return
        with self.path.open("rb") as file:
            self.read_to = file.seek(self.read_to if self.path.stat().st_size >= self.read_to else 0)
            whole, end, _ = file.read().rpartition(b"\n")
        self.read_to += len(whole) + len(end)
        yield from whole_records(whole.splitlines())


class Following:
    """Examines a run step by step, and gives each finding once, when it first shows."""

    def __init__(
        self,
        groups: int,
        responses_per_group: int,
        objective: str,
        done: Iterable[Record] = (),
        responses: Path | None = None,
        old_logp: str = "",
        trainer: str = "",
    ) -> None:
        """`responses` is the file to which the run adds some of each step, `old_logp` its `rollout.old_logp`.

        `trainer` says in which trainer's keys a remedy is given, as in `examine`.
        """
        self.size, self.objective, self.old_logp = (groups, responses_per_group), objective, old_logp
        self.trainer = trainer
        self.responses: Iterable[Record] = () if responses is None else NewLines(responses)
        self.records = list(self._completed(done))
        self.named = {finding.name for finding in self._findings()}

    @classmethod
    def of_run(cls, config: Config, folder: RunFolder, done: int) -> "Following":
        """The examination of a run with `done` finished steps."""
        rollout, records = config.rollout, json_lines(folder.metrics, STEP) if done else ()
        size = (rollout.prompts_per_step, rollout.responses_per_prompt)
        return cls(*size, config.objective, records, folder.responses, rollout.old_logp)

    def __call__(self, metrics: Record) -> list[Detection]:
        """What has become clear with the metrics of this step."""
        self.records += self._completed([metrics])
        if len(self.records) % max(1, len(self.records) // LOOKS):
            return []
        new = [finding for finding in self._findings() if finding.name not in self.named]
        self.named |= {finding.name for finding in new}
        return new

    def _completed(self, records: Iterable[Record]) -> Iterator[Record]:
        """The metrics of steps with what their responses say."""
        return run_records(records, self.responses, self.size, self.objective, self.old_logp)

    @property
    def standstill(self) -> list[Detection]:
        """What keeps the run from learning as it stands."""
        return standstill(table_of(self.records))

    def _findings(self) -> tuple[Detection, ...]:
        table = table_of(self.records)
        return examine(table, LIVE, self.trainer).findings if table else ()
