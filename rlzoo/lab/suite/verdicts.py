"""What the cells say: results by arm, verdicts on claims, and which objectives differ in which experiment.

All claims and controls of a table are one family of tests, corrected as the leaderboard's are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import combinations
from typing import TypeAlias

import numpy as np

from objectives import ObjectiveError, parse
from rlzoo.lab.suite.cells import BASE_SEEDS, Record, Seeds, arms, kinds_of
from rlzoo.lab.suite.experiment import BASE, START, TYPED, Arm, Claim, Contrast, Experiment, load_experiment, own_names
from rlzoo.statistics.family import Family
from rlzoo.statistics.paired import (
    PairedDifference,
    groups_differ,
    paired_by_seed,
    paired_p_values,
    pairs_needed_range,
)
from rlzoo.statistics.verdicts import SIGNIFICANCE

# ---- results ---------------------------------------------------------------------------------------------------------


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


# ---- claims ----------------------------------------------------------------------------------------------------------


GROUP = 10
"""Seeds of a group where base is compared with itself."""


class ClaimVerdict(Enum):
    """What may be said of a claim here."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    CANNOT_TELL = "cannot tell"
    DOES_NOT_FIRE = "does not fire"
    """Both arms are the same run on every seed."""
    VOID = "void"
    """The controls of the experiment failed, and it decides nothing."""


@dataclass(frozen=True)
class Compared:
    """Two arms on the seeds that both have."""

    arm: str
    against: str
    difference: PairedDifference | None
    """None where they share fewer than two seeds."""
    corrected: float = 1.0
    """Its p-value, corrected for all that is tested with it."""

    @property
    def sign(self) -> int:
        """1 if the first is higher for sure, -1 if it is lower for sure."""
        if self.difference is None or self.corrected >= SIGNIFICANCE:
            return 0
        return 1 if self.difference.mean > 0 else -1


@dataclass(frozen=True)
class BaseAgainstBase:
    """Base on groups of ten further seeds, where no difference is a true one."""

    groups: int
    comparisons: int
    told_apart: int
    """Comparisons of two groups whose own p-value is below 0.05."""
    p_value: float
    """Of all groups having one mean."""
    corrected: float = 1.0


class ControlFailure(Enum):
    """Why an experiment is void."""

    POSITIVE = "the positive control was not told apart in its direction"
    NEGATIVE = "the negative control was not shown to be the same"
    BASE = "base was told apart from itself"


@dataclass(frozen=True)
class Controls:
    """What must hold before an experiment decides anything."""

    positive: Compared
    positive_higher: bool
    negative: Compared
    base: BaseAgainstBase | None
    """None where base has not been trained on two groups of further seeds."""
    margin: float
    """The negative control's two arms are the same if their difference is shown to be smaller than this."""
    looks: int = 1

    @property
    def failed(self) -> list[ControlFailure]:
        """Those that make it void."""
        failed = [ControlFailure.POSITIVE] * (self.positive.sign != (1 if self.positive_higher else -1))
        known = self.negative.difference
        is_same = known is not None and known.is_within(self.margin, self.looks)
        failed += [ControlFailure.NEGATIVE] * (not is_same)
        return failed + [ControlFailure.BASE] * (self.base is not None and self.base.corrected < SIGNIFICANCE)


@dataclass(frozen=True)
class JudgedClaim:
    """A claim and its verdict."""

    claim: Claim
    compared: Compared
    verdict: ClaimVerdict
    seeds_needed: tuple[int, int] | None
    """How many seeds find the smallest difference that counts, as far as the spread is known; 0 is over a thousand.
    None where nothing is known, or no more are needed."""
    touched: Mapping[str, float]
    """Part in which the arm differs -> the share of tokens that it acted on."""


@dataclass(frozen=True)
class JudgedExperiment:
    """One experiment, its controls and its claims."""

    results: ExperimentResults
    controls: Controls
    claims: Sequence[JudgedClaim]


Test: TypeAlias = tuple[str, str]
"""Arm and against."""


def judge(results: Sequence[ExperimentResults], looks: int = 1) -> list[JudgedExperiment]:
    """Judges the claims of all experiments together."""
    tests = [_tests(result) for result in results]
    bases = [_base_against_base(result) for result in results]
    compared = [(place, test, compare(results[place], *test)) for place, of_one in enumerate(tests) for test in of_one]
    known = [entry for entry in compared if entry[-1].difference is not None]
    p_values = [comparison.difference.p_value for *_, comparison in known if comparison.difference]
    p_values += [base.p_value for base in bases if base]
    family = Family(len(p_values), looks)
    corrected = iter(family.adjusted(p_values))
    by_test = {(place, test): comparison for place, test, comparison in compared}
    by_test |= {(place, test): replace(comparison, corrected=next(corrected)) for place, test, comparison in known}
    checked = [base and replace(base, corrected=next(corrected)) for base in bases]
    return [
        _judged(result, {test: by_test[place, test] for test in tests[place]}, checked[place], family)
        for place, result in enumerate(results)
    ]


def compare(results: ExperimentResults, arm: str, against: str, score: str = "") -> Compared:
    """Two arms on the seeds that both have, by the experiment's score or another one, not corrected."""
    seeds = results.shared(arm, against)
    if len(seeds) < 2:
        return Compared(arm, against, None)
    values = [results.arms[label].values(score or results.experiment.score, seeds) for label in (arm, against)]
    return Compared(arm, against, paired_by_seed(*values))


def _tests(results: ExperimentResults) -> list[Test]:
    """Each once."""
    experiment = results.experiment
    contrasts: list[Contrast] = [*experiment.claims, experiment.positive]
    return list(dict.fromkeys([*((test.arm, test.against) for test in contrasts), experiment.negative]))


def _base_against_base(results: ExperimentResults) -> BaseAgainstBase | None:
    seeds = sorted(results.base)
    count = len(seeds) // GROUP
    if count < 2:
        return None
    scores = [results.base[seed].score(results.experiment.score) for seed in seeds[: count * GROUP]]
    groups = np.array(scores).reshape(count, GROUP)
    pairs = list(combinations(range(count), 2))
    p_values = paired_p_values(np.stack([groups[first] - groups[second] for first, second in pairs]))
    told_apart = int((p_values < SIGNIFICANCE).sum())
    return BaseAgainstBase(count, len(pairs), told_apart, groups_differ(groups))


def _judged(
    results: ExperimentResults, compared: Mapping[Test, Compared], base: BaseAgainstBase | None, family: Family
) -> JudgedExperiment:
    experiment = results.experiment
    positive = compared[experiment.positive.arm, experiment.positive.against]
    negative, margin = compared[experiment.negative], experiment.margin
    controls = Controls(positive, experiment.positive.higher, negative, base, margin, family.looks)
    claims = [
        _claim(results, claim, compared[claim.arm, claim.against], controls, family) for claim in experiment.claims
    ]
    return JudgedExperiment(results, controls, claims)


def _claim(
    results: ExperimentResults, claim: Claim, compared: Compared, controls: Controls, family: Family
) -> JudgedClaim:
    verdict, known = verdict_of(claim, compared, bool(controls.failed), family.looks), compared.difference
    needed = None
    if verdict is ClaimVerdict.CANNOT_TELL and known is not None:
        needed = pairs_needed_range(claim.smallest or known.mean, known, family.level)
    return JudgedClaim(claim, compared, verdict, needed, touched_by(results, claim.arm, claim.against))


def verdict_of(claim: Claim, compared: Compared, is_void: bool, looks: int = 1) -> ClaimVerdict:
    """What may be said of a claim."""
    if is_void:
        return ClaimVerdict.VOID
    if compared.difference is None:
        return ClaimVerdict.CANNOT_TELL
    if compared.difference.is_none:
        return ClaimVerdict.DOES_NOT_FIRE
    if compared.sign:
        return ClaimVerdict.HOLDS if (compared.sign > 0) == claim.higher else ClaimVerdict.DOES_NOT_HOLD
    return (
        ClaimVerdict.DOES_NOT_HOLD if compared.difference.is_within(claim.smallest, looks) else ClaimVerdict.CANNOT_TELL
    )


def touched_by(results: ExperimentResults, arm: str, against: str) -> dict[str, float]:
    """Parts that an arm has and the other has not -> the share of tokens that they acted on, where that is counted."""
    if arm not in results.arms:
        return {}
    objectives = [parse(results.experiment.arms[label].objective) for label in (arm, against)]
    others = {part.identity for part in objectives[1].parts}
    names = {part.name for part in objectives[0].parts if part.identity not in others}
    return {name: share for name, share in results.arms[arm].touched.items() if name in names}


# ---- contrasts -------------------------------------------------------------------------------------------------------


class Standing(Enum):
    """How an arm stands to base."""

    HIGHER = "higher"
    LOWER = "lower"
    NOT_TOLD_APART = "not told apart"
    SAME_RUN = "the same run"


@dataclass(frozen=True)
class Contrasted:
    """An arm beside base, two-sided."""

    compared: Compared
    standardised: float | None
    """The difference in standard deviations of a run, those of all arms of the experiment together; None where nothing
    varies."""

    @property
    def standing(self) -> Standing:
        """What may be said."""
        known = self.compared.difference
        if known is not None and known.is_none:
            return Standing.SAME_RUN
        return {1: Standing.HIGHER, -1: Standing.LOWER, 0: Standing.NOT_TOLD_APART}[self.compared.sign]


def against_base(results: Sequence[ExperimentResults], looks: int = 1) -> list[dict[str, Contrasted]]:
    """Of each experiment its arms by label; all of them are one family of tests."""
    compared = [(place, compare(result, label, BASE)) for place, result in enumerate(results) for label in result.arms]
    known = [
        (place, comparison)
        for place, comparison in compared
        if comparison.difference is not None and comparison.arm != BASE
    ]
    p_values = [comparison.difference.p_value for _, comparison in known if comparison.difference]
    corrected = Family(len(p_values), looks).adjusted(p_values)
    contrasts: list[dict[str, Contrasted]] = [{} for _ in results]
    scales = [deviation(result) for result in results]
    for (place, comparison), p_value in zip(known, corrected, strict=True):
        assert comparison.difference is not None
        standardised = comparison.difference.mean / scales[place] if scales[place] else None
        contrasts[place][comparison.arm] = Contrasted(replace(comparison, corrected=p_value), standardised)
    return contrasts


def deviation(results: ExperimentResults) -> float:
    """The standard deviation of the score of one run, over seeds, of all trained arms together; 0 if none is known."""
    score, trained = results.experiment.score, [arm for label, arm in results.arms.items() if label != START]
    values = [arm.values(score, sorted(arm.records)) for arm in trained if len(arm.records) > 1]
    return float(np.sqrt(np.mean([of_arm.var(ddof=1) for of_arm in values]))) if values else 0.0
