"""The token microscope: the real rollouts of a step, seen through one or two objectives."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torch import Tensor

from objectives import Objective, TokenBatch, parse, quantile
from rlzoo.config import InspectConfig, TaskConfig, check_keys
from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate import response_record
from rlzoo.experiment.experiment import Experiment, check, check_objective
from rlzoo.experiment.identity import has_changed, trained_in
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.experiment.trial import try_objective
from rlzoo.files import read_json_lines
from rlzoo.inspecting.view import Comparison, Quadrant, Silenced, View, compare_views, look, most_silenced, quadrants
from rlzoo.model.accelerator import make_accelerator
from rlzoo.training.collect import Collected
from rlzoo.training.run import load_trainer
from rlzoo.training.trainer import Trainer

SCORED = frozenset({"logp_old", "entropy_old"})
"""What is scored whatever the objectives read."""


@dataclass(frozen=True)
class Microscope:
    """The rollouts of one step of a run, and how one or two objectives see them."""

    folder: RunFolder
    experiment: Experiment
    settings: InspectConfig
    step: int
    """Steps of training that the policy had behind it when it sampled."""
    collected: Collected
    batch: TokenBatch
    """With the policy's statistics, on the CPU."""
    views: Sequence[View]
    recorded: Sequence[bool]
    """For each response that training recorded of this step: whether it is the same here."""

    @property
    def uncertain(self) -> float:
        """The entropy in nats from which a place counts as uncertain."""
        return float(quantile(self.batch.require("entropy_old", "inspect")[self.batch.mask], self.settings.entropy))

    @property
    def quadrants(self) -> list[list[Quadrant]]:
        """Of each view."""
        return [quadrants(self.batch, view, self.settings.probability, self.uncertain) for view in self.views]

    @property
    def silenced(self) -> list[list[Silenced]]:
        """Of each view."""
        return [most_silenced(self.batch, self.collected.rollouts.tokens, view) for view in self.views]

    @property
    def comparison(self) -> Comparison | None:
        """Of the two views, if there are two."""
        return compare_views(self.batch, *self.views) if len(self.views) == 2 else None

    @property
    def refill(self) -> tuple[int, int, int] | None:
        """Groups sampled, those all right and those all wrong, where the run drops some and samples others instead."""
        if not self.experiment.objective.refills:
            return None
        rates = [
            rate
            for graded in self.collected.examples
            for rate in graded.correct.view(len(graded.problems), -1).mean(1).tolist()
        ]
        return len(rates), rates.count(1.0), rates.count(0.0)

    @cached_property
    def shown(self) -> list[Tensor]:
        """Rows of each group to show: those where a part silences that seldom does, then the most mixed ones.

        One that is left out is among them, if there is one.
        """
        group = self.batch.require("group", "inspect")
        groups = [(group == number).nonzero()[:, 0] for number in dict.fromkeys(group.tolist())]

        masks = [silenced for view in self.views for silenced in view.silenced.values()]
        often = [int(silenced.sum()) for silenced in masks]

        def rank(rows: Tensor) -> tuple[bool, float, float]:
            silenced = [n for n, tokens in zip(often, masks, strict=True) if bool(tokens[rows].any())]
            pushed = any(bool((view.push[rows] != 0).any()) for view in self.views)
            right = self.batch.require("correct", "inspect")[rows].mean().item()
            return not pushed, min(silenced, default=math.inf), abs(right - 0.5)

        def is_left_out(rows: Tensor) -> bool:
            return any(bool(row[rows].all()) for view in self.views for row in view.left_out.values())

        ordered = sorted(groups, key=rank)
        chosen, rest = ordered[: self.settings.groups], ordered[self.settings.groups :]
        example = next(filter(is_left_out, rest), None)
        if example is not None and not any(map(is_left_out, chosen)):
            chosen[-1] = example
        return chosen


def inspect_run(run: str, settings: InspectConfig) -> Microscope:
    """Samples again what a checkpoint of a run sampled next, and looks at it.

    Weights, problems, seed and code are those of training, and so are the rollouts, bitwise on the same machine. Raises
    UserError or ObjectiveError for a run, a step, an objective or a setting that is of no use.
    """
    folder = RunFolder(Path(run))
    check_keys(settings)
    config = folder.read_config()
    objectives = [
        parse(expression)
        for expression in (settings.objective or config.objective, settings.against)[: 1 + bool(settings.against)]
    ]
    for objective in objectives:
        check_objective(objective, config.model, config.rollout)
        try_objective(objective, config.rollout)
    if not settings.objective and objectives[0].key != (trained := trained_in(folder.path).key):
        change = has_changed(f"objective={config.objective}", objectives[0].key, trained, f"the run in {run}")
        raise UserError(f"{change}; objective= says what to look at instead")
    if len(set(objectives)) < len(objectives):
        raise UserError(f"against={settings.against} is the objective that is looked at already, {objectives[0]}")
    if settings.step is not None:
        folder.checkpoint(settings.step)
    elif folder.last_checkpoint() is None:
        raise UserError(f"{run} has no checkpoint yet; step=0 looks at the starting model")
    experiment = check(config)
    needs = SCORED.union(*(objective.needs & {"logp_ref", "logp_prompt"} for objective in objectives))
    with load_trainer(experiment, make_accelerator(config.model.precision), folder, settings.step, needs) as trainer:
        collected = trainer.collect()
        batch, minibatches = _scored(trainer, collected, needs)
        views = [look(it, batch, minibatches, _state(trainer, folder, it)) for it in objectives]
        step = trainer.progress.step
    return Microscope(
        folder, experiment, settings, step, collected, batch, views, _recorded(folder, config.task, step, collected)
    )


def _scored(trainer: Trainer, collected: Collected, needs: frozenset[str]) -> tuple[TokenBatch, list[Tensor]]:
    """The batch on the CPU, as graded: each objective shapes and selects for itself; and the rows of each mini-batch.

    It knows the micro-batches that training would make.
    """
    batch = trainer.scored(collected, needs)
    minibatches = list(trainer.minibatches(batch))
    micro_batch = sum(trainer.micro_batch_numbers(collected, rows) for rows in minibatches)
    batch = batch.with_fields(micro_batch=micro_batch, reward=collected.reward, selected=None, touched={})
    return batch.with_fields(**{k: v.cpu() for k, v in batch.tensors().items()}), minibatches


def _state(trainer: Trainer, folder: RunFolder, objective: Objective) -> Mapping[str, Mapping[str, float]]:
    """The state of its controllers, which only the run's own objective has."""
    return trainer.progress.objective_state if objective.key == trained_in(folder.path).key else {}


def _recorded(folder: RunFolder, task: TaskConfig, step: int, collected: Collected) -> list[bool]:
    records = [record for record in read_json_lines(folder.responses) if record["step"] == step + 1]
    graded = collected.examples[0]
    again = [response_record(graded, row, task) for row in range(min(len(records), len(graded.texts)))]
    names = ("prompt", "response", "tokens")
    return [all(a[name] == b[name] for name in names) for a, b in zip(again, records, strict=False)]
