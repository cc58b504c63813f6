"""Every arm against base, and every pair of objectives: who is told apart from whom, and where."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import combinations

import numpy as np

from objectives import parse
from rlzoo.lab.suite.claims import Compared, compare
from rlzoo.lab.suite.experiment import BASE
from rlzoo.lab.suite.results import ExperimentResults
from rlzoo.statistics.family import Family


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


@dataclass(frozen=True)
class Pair:
    """Two objectives that some experiment was asked for both of."""

    objectives: tuple[str, str]
    told_apart_in: Sequence[str]
    """Experiments."""
    is_same: bool
    """Whether all runs of both are the same, in every experiment."""


@dataclass(frozen=True)
class Pairs:
    """All pairs of objectives, one family of tests over all experiments."""

    pairs: Sequence[Pair]
    tests: int

    @property
    def different(self) -> int:
        """Pairs whose runs are not all the same."""
        return sum(not pair.is_same for pair in self.pairs)

    @property
    def told_apart(self) -> int:
        """Pairs that some experiment tells apart."""
        return sum(bool(pair.told_apart_in) for pair in self.pairs)


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
    """The standard deviation of the score of one run, over seeds, of all arms together; 0 where nothing is known."""
    score = results.experiment.score
    values = [arm.values(score, sorted(arm.records)) for arm in results.arms.values() if len(arm.records) > 1]
    return float(np.sqrt(np.mean([of_arm.var(ddof=1) for of_arm in values]))) if values else 0.0


def all_pairs(results: Sequence[ExperimentResults], looks: int = 1) -> Pairs:
    """Of the objectives that are no experiment's own arms; those that mean the same are one."""
    typed = dict.fromkeys(written for result in results for written in result.others)
    distinct = list({parse(written).key: written for written in reversed(typed)}.values())[::-1]
    tests: list[tuple[tuple[str, str], str, Compared]] = []
    for pair in combinations(distinct, 2):
        for result in results:
            if not all(written in result.others for written in pair):
                continue
            compared = compare(result, *(result.others[written] for written in pair))
            if compared.difference is not None:
                tests.append((pair, result.experiment.name, compared))
    p_values = [comparison.difference.p_value for *_, comparison in tests if comparison.difference]
    corrected = Family(len(p_values), looks).adjusted(p_values)
    grouped = dict[tuple[str, str], list[tuple[str, Compared]]]()
    for (pair, name, compared), p_value in zip(tests, corrected, strict=True):
        grouped.setdefault(pair, []).append((name, replace(compared, corrected=p_value)))
    return Pairs([_pair(pair, comparisons) for pair, comparisons in grouped.items()], len(tests))


def _pair(objectives: tuple[str, str], comparisons: Sequence[tuple[str, Compared]]) -> Pair:
    is_same = all(comparison.difference is not None and comparison.difference.is_none for _, comparison in comparisons)
    return Pair(objectives, [name for name, comparison in comparisons if comparison.sign], is_same)
