"""The suite: trains what is not done, and says what all that is done shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rlzoo.lab.keys import SuiteConfig
from rlzoo.lab.suite.cells import CellFile, chosen_seeds, count_looks, planned
from rlzoo.lab.suite.experiment import load_experiment, own_names
from rlzoo.lab.suite.training import Failure, RunningView, run_cells
from rlzoo.lab.suite.verdicts import (
    ClaimVerdict,
    Contrasted,
    ControlFailure,
    JudgedClaim,
    JudgedExperiment,
    against_base,
    judge,
    read_results,
)
from rlzoo.statistics.interim_analyses import wants_seeds


@dataclass(frozen=True)
class SuiteTable:
    """All that the cells of a folder show."""

    experiments: Sequence[JudgedExperiment]
    contrasts: Sequence[Mapping[str, Contrasted]]
    """Of each experiment, the arms against base."""
    failures: Sequence[Failure]
    """Cells of this call that could not be trained."""
    refused: Mapping[tuple[str, str], str]
    """Experiment and objective -> why it cannot be asked that."""
    looks: int = 1
    """How often tables of these cells are looked at, for which every p-value is corrected."""

    @property
    def claims(self) -> list[tuple[JudgedExperiment, JudgedClaim]]:
        """All of them, each with its experiment."""
        return [(experiment, claim) for experiment in self.experiments for claim in experiment.claims]


def make_suite(config: SuiteConfig, objectives: Sequence[str], view: RunningView) -> SuiteTable:
    """Trains cells into `config.output`, and reads all that lies there. Raises UserError."""
    names, seeds = config.experiments or own_names(), chosen_seeds(config.seeds)
    plan = planned(names, objectives, seeds, config.base_against_base)
    file = CellFile(Path(config.output) / "cells.jsonl")
    with file.held():
        looks = count_looks(file.path.parent, seeds)
        failures = run_cells(plan.cells, file, config.jobs, view)
        for count in seeds.looks[1:]:
            judged = judge(read_results(names, objectives, seeds, file.read()), looks)
            undecided = {
                experiment.results.experiment.name for experiment in judged if _is_open(experiment, seeds.up_to)
            }
            further = planned(
                [name for name in names if load_experiment(name).name in undecided],
                objectives,
                replace(seeds, count=count),
                False,
            )
            failed = {failure.cell.identity for failure in failures}
            cells = [cell for cell in further.cells if cell.identity not in failed]
            failures = [*failures, *run_cells(cells, file, config.jobs, view)]
    results = read_results(names, objectives, seeds, file.read())
    return SuiteTable(judge(results, looks), against_base(results, looks), failures, plan.refused, looks)


def _is_open(experiment: JudgedExperiment, up_to: int) -> bool:
    """Whether further seeds may decide a claim, or show what must be seen before any claim is decided."""
    failed = experiment.controls.failed
    if failed:
        return ControlFailure.BASE not in failed
    needed = [claim.seeds_needed for claim in experiment.claims if claim.verdict is ClaimVerdict.CANNOT_TELL]
    return any(wants_seeds(False, False, seeds[0] if seeds else 0, up_to) for seeds in needed)
