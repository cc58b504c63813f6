"""The doubt whether a row is stable is one for all measures and decodings of a set of problems."""

import numpy as np
import pytest

from rlzoo.statistics.differences import Family, RunScores, compare_rows
from rlzoo.statistics.doubt import share_doubt
from rlzoo.statistics.page_tests import Measure
from rlzoo.statistics.verdicts import judge


def page_of(decodings: int, better: float = 0.0) -> list[dict[str, RunScores]]:
    """Rows a to f, of which b is better."""
    generator = np.random.default_rng(5)
    pages = []
    for _ in range(decodings):
        rate = np.clip(generator.random(60) + 0.01 * generator.normal(size=(6, 3, 1)), 0, 1)
        rate[1] = np.clip(rate[1] + better, 0, 1)
        values = generator.binomial(8, rate) / 8
        pages.append({chr(97 + row): RunScores((0, 1, 2), own) for row, own in enumerate(values)})
    return pages


def test_the_doubt_of_a_row_is_that_of_the_measure_that_doubts_most_and_the_mean_of_its_decodings() -> None:
    """Of one set of problems; a measure alone keeps its own."""
    compared = [compare_rows(list(page.values()), 0, 1 / 8) for page in page_of(decodings=4)]
    own = np.array([it.spread.weights[:, 0] for it in compared if it.spread])
    shared = share_doubt(compared, ["abcdef"] * 4, ["avg", "avg", "maj", "maj"])
    stable = np.minimum(own[:2].mean(axis=0), own[2:].mean(axis=0))
    for before, after in zip(compared, shared, strict=True):
        for row in after.others:
            known, was = after.to_baseline[row], before.to_baseline[row]
            assert known and was
            assert known.seeds[0].weight == pytest.approx(stable[row] * stable[0])
            assert sum(case.weight for case in known.seeds) == pytest.approx(1)
            assert [case.error for case in known.seeds] == [case.error for case in was.seeds]
    (alone,) = share_doubt(compared[:1], ["abcdef"], ["avg"])
    weights = [[case.weight for case in it.seeds] for it in alone.to_baseline if it]
    assert weights == [[case.weight for case in it.seeds] for it in compared[0].to_baseline if it]


@pytest.mark.slow
def test_a_page_shares_the_doubt_of_measures_of_one_set_and_counts_the_rows_of_each_set() -> None:
    pages = page_of(decodings=2, better=0.06)
    alike = {name: name for name in pages[0]}
    by_set = [
        judge([Measure(page, 1 / 8, alike, by, of) for page, by, of in zip(pages, measures, sets, strict=True)], "a")
        for measures, sets in ((("avg", "maj"), ("", "")), (("avg", "avg"), ("one", "other")))
    ]
    shared, apart = ([it.rows["b"].difference for it in page] for page in by_set)
    own = [compare_rows(list(page.values()), 0, 1 / 8) for page in pages]
    known = [it.to_baseline[1] for it in share_doubt(own, ["abcdef"] * 2, ["avg", "maj"])]
    family = Family(10, 1, 6), Family(10, 1, 12)
    for found, differences, which in (
        (shared, known, family[0]),
        (apart, [it.to_baseline[1] for it in own], family[1]),
    ):
        for one, it in zip(found, differences, strict=True):
            assert one and it
            assert one.low == pytest.approx(it.interval(1 - which.level).low)
