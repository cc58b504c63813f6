"""What the cells of a folder say, arm by arm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from objectives import ObjectiveError, parse
from rlzoo.lab.suite.catalogue import load_experiment, own_names
from rlzoo.lab.suite.cells import Record, arms, kinds_of
from rlzoo.lab.suite.experiment import BASE, TYPED, Arm, Experiment
from rlzoo.lab.suite.seeds import BASE_SEEDS, Seeds


@dataclass(frozen=True)
class ArmResults:
    """One arm on all its seeds."""

    label: str
    arm: Arm
    records: Mapping[int, Record]
    """By seed."""

    def values(self, score: str, seeds: Sequence[int]) -> np.ndarray:
        """[seeds] its scores."""
        return np.array([self.records[seed].score(score) for seed in seeds])

    @cached_property
    def touched(self) -> Mapping[str, float]:
        """Part -> the share of the tokens that it acted on, a mean over seeds."""
        shares = [
            {name.split("/")[1]: share for name, share in record.touched.items() if name.endswith("/tokens")}
            for record in self.records.values()
        ]
        return {
            part: float(np.mean([of_seed.get(part, 0.0) for of_seed in shares]))
            for first in shares[:1]
            for part in first
        }


@dataclass(frozen=True)
class ExperimentResults:
    """One experiment."""

    experiment: Experiment
    arms: Mapping[str, ArmResults]
    """By label, its own ones first; those that have no cell are left out."""
    base: Mapping[int, Record]
    """Of the seeds on which base is compared with itself."""

    @property
    def others(self) -> dict[str, str]:
        """Objectives that are no arms of the experiment's own, as they were typed -> their labels."""
        return {label.removesuffix(TYPED): label for label in self.arms if label not in self.experiment.arms}

    def shared(self, first: str, second: str) -> list[int]:
        """The seeds that both arms have."""
        both = [self.arms[label].records if label in self.arms else {} for label in (first, second)]
        return sorted(set(both[0]) & set(both[1]))


def read_results(
    names: Sequence[str], objectives: Sequence[str], seeds: Seeds, records: Sequence[Record]
) -> list[ExperimentResults]:
    """Of the experiments that are named, and of those of this package that have cells.

    What a record names as an objective is not imported for that.
    """
    recorded = {record.kind.experiment for record in records}
    everything = dict.fromkeys((*(name for name in own_names() if name in recorded), *names))
    experiments = {name: load_experiment(name) for name in everything}
    own_arms = {experiment.name: experiment.arms for experiment in experiments.values()}
    labels = dict.fromkeys(
        record.label for record in records if record.label not in own_arms.get(record.kind.experiment, (record.label,))
    )
    seen = dict.fromkeys(label.removesuffix(TYPED) for label in labels)
    others = [*objectives, *(written for written in seen if written not in objectives and _is_known(written))]
    return [_results(experiment, others, seeds, records) for experiment in experiments.values()]


def _is_known(expression: str) -> bool:
    try:
        parse(expression, imports=False)
    except ObjectiveError:
        return False
    return True


def _results(
    experiment: Experiment, others: Sequence[str], seeds: Seeds, records: Sequence[Record]
) -> ExperimentResults:
    chosen = arms(experiment, others)
    kinds, _ = kinds_of(experiment, chosen)
    counted = [record for record in records if seeds.has(experiment, record.seed)]
    by_label = {
        label: ArmResults(label, chosen[label], {record.seed: record for record in counted if record.kind == kind})
        for label, kind in kinds.items()
    }
    return ExperimentResults(
        experiment,
        {label: arm for label, arm in by_label.items() if arm.records},
        {record.seed: record for record in records if record.seed in BASE_SEEDS and record.kind == kinds[BASE]},
    )
