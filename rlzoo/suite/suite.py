"""The suite: trains what is not done, and says what all that is done shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlzoo.config import SuiteConfig
from rlzoo.suite.catalogue import own_names
from rlzoo.suite.cells import CellFile, planned
from rlzoo.suite.claims import JudgedClaim, JudgedExperiment, judge
from rlzoo.suite.contrasts import Contrasted, Pairs, against_base, all_pairs
from rlzoo.suite.results import read_results
from rlzoo.suite.running import Failure, RunningView, run_cells
from rlzoo.suite.seeds import chosen_seeds


@dataclass(frozen=True)
class SuiteTable:
    """All that the cells of a folder show."""

    experiments: Sequence[JudgedExperiment]
    contrasts: Sequence[Mapping[str, Contrasted]]
    """Of each experiment, the arms against base."""
    pairs: Pairs
    """Of objectives, in the experiments that are valid."""
    failures: Sequence[Failure]
    """Cells of this call that could not be trained."""
    refused: Mapping[tuple[str, str], str]
    """Experiment and objective -> why it cannot be asked that."""

    @property
    def claims(self) -> list[tuple[JudgedExperiment, JudgedClaim]]:
        """All of them, each with its experiment."""
        return [(it, claim) for it in self.experiments for claim in it.claims]


def run_suite(config: SuiteConfig, objectives: Sequence[str], view: RunningView) -> SuiteTable:
    """Trains cells into `config.output`, and reads all that lies there. Raises UserError."""
    names, seeds = config.experiments or own_names(), chosen_seeds(config.seeds)
    plan = planned(names, objectives, seeds, config.base_against_base)
    file = CellFile(Path(config.output) / "cells.jsonl")
    with file.held():
        failures = run_cells(plan.cells, file, config.jobs, view)
    results = read_results(names, objectives, seeds, file.read())
    judged = judge(results)
    valid = [experiment.results for experiment in judged if not experiment.controls.troubles]
    return SuiteTable(judged, against_base(results), all_pairs(valid), failures, plan.refused)
