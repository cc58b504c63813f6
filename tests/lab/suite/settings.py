"""Cells that nobody trained: records with scores drawn from known distributions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from rlzoo.lab.suite.cells import BASE_SEEDS, CellKind, Record
from rlzoo.lab.suite.cells import arms as arms_of
from rlzoo.lab.suite.experiment import Claim, Experiment, load_experiment
from rlzoo.lab.suite.suite import SuiteTable
from rlzoo.lab.suite.verdicts import ArmResults, ExperimentResults, against_base, judge

SEEDS = range(1100, 1110)
Draw = Callable[[str, int], float]
"""Arm and seed -> score."""


def drawn(
    experiment: Experiment, draw: Draw, others: Sequence[str] = (), seeds: Sequence[int] = SEEDS, base: bool = True
) -> ExperimentResults:
    """What an experiment's cells would say if their scores were these."""
    arms = arms_of(experiment, others)

    def record(label: str, seed: int) -> Record:
        kind = CellKind(experiment.name, "", arms[label].objective, "{}")
        touched = {"touched/clip_higher/tokens": 0.0125, "touched/clip/tokens": 0.02}
        return Record(kind, seed, label, {experiment.score: draw(label, seed), "beside": 0.5}, touched, 3.0)

    found = {
        label: ArmResults(label, arm, {seed: record(label, seed) for seed in seeds}) for label, arm in arms.items()
    }
    return ExperimentResults(experiment, found, {seed: record("base", seed) for seed in BASE_SEEDS if base})


def shifted(draw: np.random.Generator, shifts: Mapping[str, float]) -> Draw:
    """Seeds share half of their variance; arms are shifted by so many standard deviations of a difference."""
    shared = {seed: draw.normal() for seed in (*SEEDS, *BASE_SEEDS)}
    return lambda label, seed: shared[seed] + draw.normal() / np.sqrt(2) + shifts.get(label, 0.0)


CLAIM = Claim("clip_higher", True, text="Rare tokens grow.", paper="arXiv:1", published="a curve", smallest=0.01)


def rare(**changes: object) -> Experiment:
    """One of the package with a claim, with some things changed; its negative control may differ as seeds do."""
    changes = {"claims": [CLAIM], "scores": {}, "same_within": 5.0, **changes}
    return replace(load_experiment("rare_but_right"), **changes)  # type: ignore[arg-type]


def table(results: Sequence[ExperimentResults]) -> SuiteTable:
    """What a suite says of these."""
    refused = {("rare_but_right", "dapo+epochs"): "why not"}
    return SuiteTable(judge(results), against_base(results), [], refused)
