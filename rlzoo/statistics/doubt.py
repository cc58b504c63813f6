"""The doubt whether a row is stable, which is one for all measures and decodings of a set, as they score the same runs.

Each of them has its own probability that a row is stable (`spread.py`). Three runs that lie close together by chance do
so by one measure and not by the next, so that the most trusting of six would decide: of simulated pages of three
measures and two decodings with a row or the baseline five times as wide 9 to 10 % err so. Decodings differ by samples
alone, and their mean counts; of the measures it is the one that doubts most. Then 3 to 4 % err, and pages of one
measure find as much as before. (The decoding that doubts most would cost a sixth of that; the mean over measures lets
5 to 7 % err.)
"""

import itertools
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from rlzoo.statistics.differences import Differences

Name = TypeVar("Name", bound=Hashable)


def share_doubt(
    compared: Sequence[Differences], names: Sequence[Sequence[Name]], measures: Sequence[str]
) -> list[Differences]:
    """The same differences with one doubt for each row; all are of one set of problems.

    `names` are of the rows of each, `measures` of what each is by: those of one name differ by their decoding.
    """
    stable = stable_rows(compared, names, measures)
    return [doubted(differences, stable, of_rows) for differences, of_rows in zip(compared, names, strict=True)]


def stable_rows(
    compared: Sequence[Differences], names: Sequence[Sequence[Name]], measures: Sequence[str]
) -> dict[Name, float]:
    """The probability that each row with several seeds is stable."""
    known: dict[Name, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for differences, of_rows, measure in zip(compared, names, measures, strict=True):
        for row, place in differences.places.items():
            if differences.spread:
                known[of_rows[row]][measure].append(float(differences.spread.weights[place, 0]))
    return {name: min(float(np.mean(values)) for values in of.values()) for name, of in known.items()}


def doubted(differences: Differences, stable_by_name: Mapping[Name, float], names: Sequence[Name]) -> Differences:
    """With these probabilities that rows are stable."""
    stable = [stable_by_name.get(name, 1.0) for name in names]
    to_baseline = list(differences.to_baseline)
    for row, known in enumerate(to_baseline):
        if known and known.seeds:
            pair = [(stable[place], 1 - stable[place]) for place in (row, differences.baseline)]
            weights = [row_is * baseline_is for row_is, baseline_is in itertools.product(*pair)]
            seeds = [replace(case, weight=weight) for case, weight in zip(known.seeds, weights, strict=True)]
            to_baseline[row] = replace(known, seeds=seeds)
    return replace(differences, to_baseline=to_baseline)
