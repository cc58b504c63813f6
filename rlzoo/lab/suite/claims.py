"""What the papers' claims are worth here: paired differences, controls, and a verdict that is a value.

All claims and controls of a table are one family of tests, corrected as the leaderboard's are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import combinations
from typing import TypeAlias

import numpy as np

from objectives import parse
from rlzoo.lab.suite.experiment import Claim, Contrast
from rlzoo.lab.suite.results import ExperimentResults
from rlzoo.statistics.family import Family
from rlzoo.statistics.paired import (
    PairedDifference,
    groups_differ,
    paired_by_seed,
    paired_p_values,
    pairs_needed_range,
)
from rlzoo.statistics.verdicts import SIGNIFICANCE

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


class ControlTrouble(Enum):
    """Why an experiment is void."""

    POSITIVE = "the positive control was not told apart in its direction"
    NEGATIVE = "the negative control was told apart"
    BASE = "base was told apart from itself"


@dataclass(frozen=True)
class Controls:
    """What must hold before an experiment decides anything."""

    positive: Compared
    positive_higher: bool
    negative: Compared
    base: BaseAgainstBase | None
    """None where base has not been trained on two groups of further seeds."""

    @property
    def troubles(self) -> list[ControlTrouble]:
        """Those that make it void."""
        troubles = [ControlTrouble.POSITIVE] * (self.positive.sign != (1 if self.positive_higher else -1))
        troubles += [ControlTrouble.NEGATIVE] * (self.negative.sign != 0)
        return troubles + [ControlTrouble.BASE] * (self.base is not None and self.base.corrected < SIGNIFICANCE)


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


def compare(results: ExperimentResults, arm: str, against: str) -> Compared:
    """Two arms on the seeds that both have, not corrected."""
    seeds = results.shared(arm, against)
    if len(seeds) < 2:
        return Compared(arm, against, None)
    score = results.experiment.score
    values = [results.arms[label].values(score, seeds) for label in (arm, against)]
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
    controls = Controls(positive, experiment.positive.higher, compared[experiment.negative], base)
    claims = [
        _claim(results, claim, compared[claim.arm, claim.against], controls, family) for claim in experiment.claims
    ]
    return JudgedExperiment(results, controls, claims)


def _claim(
    results: ExperimentResults, claim: Claim, compared: Compared, controls: Controls, family: Family
) -> JudgedClaim:
    verdict, known = verdict_of(claim, compared, bool(controls.troubles), family.looks), compared.difference
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
