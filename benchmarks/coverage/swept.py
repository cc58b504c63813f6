"""How pages err whose baseline was swept, and what they find: `python -m benchmarks.coverage.swept 200`.

Ten rows, of which the first five are the baseline with five values. Three ways to judge: against the value that did
best on the same runs, against one that was chosen on some of the seeds and by the others, and against the best of all,
each being a comparison of its own.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.coverage.scenarios import Scenario, simulate
from rlzoo.statistics.differences import RunScores
from rlzoo.statistics.modes import SHOWN_FROM
from rlzoo.statistics.page_tests import Measure, all_tests
from rlzoo.statistics.verdicts import SIGNIFICANCE

ROWS, VALUES = 10, 5
CHOSEN_ON = {3: 1, 10: 3}
"""How many of so many seeds choose the value where seeds are split."""
EQUAL = Scenario(methods=ROWS)
SCENARIOS = {
    "all equal": EQUAL,
    "one row x 5": replace(EQUAL, wider={7: 5.0}),
    "one value x 5": replace(EQUAL, wider={1: 5.0}),
    "correlated seeds": replace(EQUAL, common=0.9, spread=2 * EQUAL.spread),
    "one value as good as the rows, four 3 points below": replace(
        EQUAL, falls=dict.fromkeys((0, 5, 6, 7, 8, 9), (0.03, 0.0, 0.0))
    ),
}
FOUND = 0.054
BETTER, WORSE = 8, 9
"""Rows that are so much above or below the best value, in the lines that say what is found."""

Rows = Mapping[int, RunScores]
Claims = Sequence[tuple[int, bool]]
"""Rows that are called better or worse at any decoding, and whether that is better."""
Way = Callable[[Sequence[Rows], Scenario], Claims]


def _claims(pages: Sequence[Rows], scenario: Scenario, baseline: int, swept: Sequence[int] = ()) -> Claims:
    measures = [Measure(rows, 1 / scenario.samples, {row: row for row in rows}, by="avg") for rows in pages]
    tested = all_tests(measures, baseline, swept=swept)
    names, is_few = [list(page.places) for page in tested.pages], len(pages[0][0].seeds) < SHOWN_FROM
    return [
        (names[test.page.number][test.row], test.against.mean > 0)
        for test, p_value in zip(tested.tests, tested.p_values, strict=True)
        if p_value < SIGNIFICANCE and not (is_few and test.against.is_split)
    ]


def best_on_the_same_runs(pages: Sequence[Rows], scenario: Scenario) -> Claims:
    """As boards did: the other values are rows like others."""
    return _claims(pages, scenario, _best(pages[0]))


def each_a_comparison(pages: Sequence[Rows], scenario: Scenario) -> Claims:
    """As boards do."""
    best = _best(pages[0])
    return _claims(pages, scenario, best, [row for row in range(VALUES) if row != best])


def split_by_seed(pages: Sequence[Rows], scenario: Scenario) -> Claims:
    """The value is chosen on some seeds, and all rows are judged by the others."""
    count = CHOSEN_ON[len(pages[0][0].seeds)]
    best = _best({row: _of_seeds(scores, slice(count)) for row, scores in pages[0].items()})
    left = [{row: _of_seeds(scores, slice(count, None)) for row, scores in rows.items()} for rows in pages]
    return _claims(left, scenario, best)


def _best(rows: Rows) -> int:
    return max(range(VALUES), key=lambda row: float(rows[row].values.mean()))


def _of_seeds(scores: RunScores, which: slice) -> RunScores:
    return RunScores(scores.seeds[which], scores.values[which])


WAYS: Mapping[str, Way] = {
    "the best on the same runs": best_on_the_same_runs,
    "split by seed": split_by_seed,
    "each a comparison": each_a_comparison,
}


def drawn(generator: np.random.Generator, scenario: Scenario, seeds: int) -> list[Rows]:
    """The rows for each decoding."""
    return [dict(enumerate(rows)) for rows in simulate(generator, scenario, seeds)]


def is_false(claims: Claims, truth: np.ndarray) -> bool:
    """Whether any row is called what it is not, against the best value."""
    against = truth - truth[:VALUES].max()
    return any(against[row] <= 0 if is_better else against[row] >= 0 for row, is_better in claims)


def table(repetitions: int, *names: str) -> Iterator[str]:
    """In %, in Markdown; of these scenarios, all unless some are named."""
    yield f"| scenario | seeds | pages | {' | '.join(f'{name}: {of}' for name in WAYS for of in FIGURES)} |"
    yield "|---" * (3 + len(WAYS) * len(FIGURES)) + "|"
    for name in names or SCENARIOS:
        scenario = SCENARIOS[name]
        for seeds in CHOSEN_ON:
            generator = np.random.default_rng([seeds, len(name), 7])
            figures = np.mean([_figures(generator, scenario, seeds) for _ in range(repetitions)], axis=0)
            yield f"| {name} | {seeds} | {repetitions} | {' | '.join(f'{100 * it:.1f}' for it in figures)} |"


FIGURES = ("false", "better found", "worse found")


def _figures(generator: np.random.Generator, scenario: Scenario, seeds: int) -> list[float]:
    """Whether a page errs, and what one finds of which two rows are moved."""
    pages, moved_rows = drawn(generator, scenario, seeds), dict(scenario.falls)
    for row, side in ((BETTER, 1), (WORSE, -1)):
        moved_rows[row] = (scenario.truth[row] + side * FOUND, 0.0, 0.0)
    moved = drawn(generator, replace(scenario, falls=moved_rows), seeds)
    figures = list[float]()
    for way in WAYS.values():
        false, claims = is_false(way(pages, scenario), scenario.truth), way(moved, scenario)
        figures += [float(false), float((BETTER, True) in claims), float((WORSE, False) in claims)]
    return figures


if __name__ == "__main__":
    for line in table(int(sys.argv[1]), *sys.argv[2:]):
        print(line, flush=True)
