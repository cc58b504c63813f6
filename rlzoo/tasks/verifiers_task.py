"""The problems of `task.name=verifiers:NAME`: the rows of the environment's datasets."""

from dataclasses import replace
from functools import cached_property
from typing import Any

from rlzoo.config import ColumnsConfig, TaskConfig
from rlzoo.tasks.base import Problem
from rlzoo.tasks.dataset import DatasetTask
from rlzoo.tasks.rows import Rows, loaded_rows
from rlzoo.tasks.verifiers import load_verifiers


class VerifiersTask(DatasetTask):
    """Held out is the evaluation dataset; without one, or with `task.held_out_rows`, a part of the dataset."""

    def __init__(self, config: TaskConfig) -> None:
        super().__init__(replace(config, columns=ColumnsConfig(question="prompt")))

    @property
    def _environment(self) -> Any:
        return load_verifiers(self.config.name, self.config.options).environment

    @cached_property
    def _held_out_rows(self) -> Rows | None:
        has_no_other = self.config.held_out_rows or self._environment.eval_dataset_source is None
        return None if has_no_other else loaded_rows(self._environment.get_eval_dataset())

    @cached_property
    def _of_split(self) -> list[Problem]:
        return self._problems(loaded_rows(self._environment.get_dataset()), self._split)
