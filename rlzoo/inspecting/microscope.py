"""The token microscope: the real rollouts of a step, seen through one or two objectives."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from objectives import (
    OF_TURNS,
    UNREPORTED,
    Loop,
    Objective,
    Source,
    TokenBatch,
    Trace,
    Writer,
    fields_from,
    parse,
    plans_by_report,
    quantile,
    whole_groups,
)
from rlzoo.config import TaskConfig, flat
from rlzoo.config.command_keys import InspectConfig
from rlzoo.config.recorded import RecordedKeys, check_recorded
from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate import response_record
from rlzoo.experiment.check import check, check_objective, refuse_unreported
from rlzoo.experiment.experiment import Experiment
from rlzoo.experiment.identity import Code, has_changed, read_objective
from rlzoo.experiment.machine import shortage_named
from rlzoo.experiment.run_folder import RESPONSES, RunFolder
from rlzoo.experiment.trial import try_objective
from rlzoo.files import read_json_lines
from rlzoo.inspecting.view import Agreement, Quadrant, View, compare_views, look, quadrants
from rlzoo.model.accelerator import make_accelerator
from rlzoo.training.run import load_trainer
from rlzoo.training.step import StepRollouts, Trainer

_logger = logging.getLogger(__name__)
Scoring = tuple[Loop, frozenset[str], frozenset[str]]
"""What `step_scoring` says of an objective."""
SCORED = frozenset({"logp_old", "entropy_old"})
"""What is scored whatever the objectives read."""

PAGES = "microscope"
"""The folder of a run that holds the pages."""


@dataclass(frozen=True)
class Microscope:
    """The rollouts of one step of a run, and how one or two objectives see them."""

    folder: RunFolder
    experiment: Experiment
    settings: InspectConfig
    step: int
    """Steps of training that the policy had behind it when it sampled."""
    collected: StepRollouts
    batch: TokenBatch
    """With the policy's statistics, on the CPU."""
    views: Sequence[View]
    recorded: Sequence[bool]
    """For each response that training recorded of this step: whether it is the same here."""

    @cached_property
    def heard(self) -> Tensor:
        """[N, T] bool: tokens that the environment wrote."""
        return self.batch.require("writer", "inspect") == Writer.ENVIRONMENT

    @property
    def learns_observations(self) -> bool:
        """Whether an objective has a gradient on what the environment wrote."""
        return any(view.objective.learns_observations for view in self.views)

    @property
    def uncertain(self) -> float:
        """The entropy in nats from which a place counts as uncertain."""
        return float(quantile(self.batch.require("entropy_old", "inspect")[self.batch.mask], self.settings.entropy))

    @property
    def quadrants(self) -> list[list[Quadrant]]:
        """Of each view."""
        return [quadrants(self.batch, view, self.settings.probability, self.uncertain) for view in self.views]

    @property
    def comparison(self) -> Agreement | None:
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
        """Rows of each group to show: groups with tokens of a rare mask first, then the most mixed ones.

        One that is left out is among them, if there is one.
        """
        group = self.batch.require("group", "inspect")
        groups = [(group == number).nonzero()[:, 0] for number in dict.fromkeys(group.tolist())]

        masks = [masked for view in self.views for masked in view.masked.values()]
        counts = [int(masked.sum()) for masked in masks]

        def rank(rows: Tensor) -> tuple[bool, float, float]:
            here = [n for n, masked in zip(counts, masks, strict=True) if bool(masked[rows].any())]
            has_gradient = any(bool((view.gradient[rows] != 0).any()) for view in self.views)
            right = self.batch.require("correct", "inspect")[rows].mean().item()
            return not has_gradient, min(here, default=math.inf), abs(right - 0.5)

        def is_left_out(rows: Tensor) -> bool:
            return any(bool(row[rows].all()) for view in self.views for row in view.left_out.values())

        ordered = sorted(groups, key=rank)
        chosen, rest = ordered[: self.settings.groups], ordered[self.settings.groups :]
        example = next(filter(is_left_out, rest), None)
        if example is not None and not any(map(is_left_out, chosen)):
            chosen[-1] = example
        return chosen


def inspect_run(run: str, settings: InspectConfig, trust: Sequence[str] = ()) -> Microscope:
    """Samples again what a checkpoint of a run sampled next, and looks at it.

    Weights, problems, seed and code are those of training, and so are the rollouts, bitwise on the same machine. Raises
    UserError or ObjectiveError for a run, a step, an objective or a setting that is of no use, and for code from
    outside that the run alone names and `trust` does not cover.
    """
    folder = RunFolder(Path(run))
    config = folder.read_config()
    typed = [{"objective": settings.objective}, {"objective": settings.against}]
    check_recorded([RecordedKeys(folder.config, flat(asdict(config)))], typed, trust)
    objectives = [
        parse(expression)
        for expression in (settings.objective or config.objective, settings.against)[: 1 + bool(settings.against)]
    ]
    for objective in objectives:
        check_objective(objective, config.model, config.task, config.rollout)
        refuse_unreported(objective, config.rollout)
        try_objective(objective, config.rollout)
    if not settings.objective and objectives[0].key != (trained := read_objective(folder.path).key):
        change = has_changed(f"objective={config.objective}", objectives[0].key, trained, f"the run in {run}")
        raise UserError(f"{change}; objective= says what to look at instead")
    if len(set(objectives)) < len(objectives):
        raise UserError(f"against={settings.against} is the objective that is looked at already, {objectives[0]}")
    if settings.step is not None:
        folder.checkpoint(settings.step)
    elif folder.last_checkpoint() is None:
        raise UserError(f"{run} has no checkpoint yet; step=0 looks at the starting model")
    experiment = check(replace(config, resume=True))  # as a run that is there
    _tell_of_other_code(folder, experiment)
    further = fields_from(Source.REFERENCE, Source.TEACHER) | UNREPORTED.keys()
    needs = SCORED.union(*(objective.needs & further for objective in objectives))
    accelerator = make_accelerator(config.model.precision)
    with (
        shortage_named(config, learns=True, where=f"; {folder.config} says them"),
        load_trainer(experiment, accelerator, folder, settings.step, needs, learns=False) as trainer,
    ):
        collected = trainer.collect(OF_TURNS)
        observed = any(objective.learns_observations for objective in objectives)
        scoring = [trainer.scoring(collected, objective) for objective in objectives]
        batch = _scored(trainer, collected, needs, observed, scoring)
        views = [_view(batch, each, _state(trainer, folder, each[0].objective)) for each in scoring]
        step = trainer.progress.step
    return Microscope(
        folder, experiment, settings, step, collected, batch, views, _recorded(folder, config.task, step, collected)
    )


def _tell_of_other_code(folder: RunFolder, experiment: Experiment) -> None:
    """What is looked at is calculated by the code that is there now."""
    code, trained = Code.of(experiment.config, experiment.objective), read_objective(folder.path)
    is_same = trained.key == experiment.objective.key
    if change := code.changes(trained.code) if is_same else code.changes_of_task(trained.code):
        _logger.warning("%s has changed since the run in %s was trained; it is shown as it is now", change, folder.path)


def _scored(
    trainer: Trainer, collected: StepRollouts, needs: frozenset[str], observed: bool, scoring: Sequence[Scoring]
) -> TokenBatch:
    """The batch on the CPU, as graded: each objective shapes and selects for itself.

    It knows the policy that the first update of training meets, and the micro-batches that training would make; if
    `observed`, that policy's statistics of what the environment wrote, too. Old statistics are those of training.
    """
    batch = trainer.scored(collected, needs, observed)
    logp, entropy = batch.logp_old, batch.entropy_old
    reported = frozenset[str]().union(*(reported for _, _, reported in scoring))
    seen = SCORED if trainer.engine.sees_entropy else SCORED - {"entropy_old"}
    batch = trainer.with_reported(collected, batch, seen if reported else reported)
    numbers = torch.zeros(len(batch.mask), dtype=torch.long, device=batch.mask.device)
    for rows in whole_groups(batch.require("group", "inspect"), trainer.config.train.minibatches_per_step):
        numbers[rows] = trainer.micro_batch_numbers(collected, rows)
    asked = {"logp": logp, "entropy": entropy, "micro_batch": numbers, "reward": collected.reward}
    batch = batch.with_fields(**asked, selected=None)
    return batch.with_fields(trace=Trace(), **{name: values.cpu() for name, values in batch.tensors().items()})


def _view(batch: TokenBatch, scoring: Scoring, state: Mapping[str, Mapping[str, float]]) -> View:
    """What an objective does, planned with the statistics that training plans with."""
    met = None
    loop, scored, _ = scoring
    if plans_by_report(loop, scored):
        met = batch.require("logp", "inspect"), batch.require("entropy", "inspect")
        batch = batch.with_fields(logp=batch.logp_old, entropy=batch.entropy_old)
    return look(loop.objective, batch, loop.minibatches, state, met)


def _state(trainer: Trainer, folder: RunFolder, objective: Objective) -> Mapping[str, Mapping[str, float]]:
    """The state of its controllers, which only the run's own objective has."""
    return trainer.progress.objective_state if objective.key == read_objective(folder.path).key else {}


def _recorded(folder: RunFolder, task: TaskConfig, step: int, collected: StepRollouts) -> list[bool]:
    records = [record for record in read_json_lines(folder.responses, RESPONSES) if record["step"] == step + 1]
    graded = collected.examples[0]
    again = [response_record(graded, row, task) for row in range(min(len(records), len(graded.texts)))]
    names = ("prompt", "response", "tokens")
    return [all(a[name] == b[name] for name in names) for a, b in zip(again, records, strict=False)]
