"""How a page of eight methods errs, covers and finds: `python -m benchmarks.coverage.coverage verdicts 800`.

What is found is a difference of 5.4 points, by moving the truth of one row.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from benchmarks.coverage.scenarios import FOUND, METHODS, SCENARIOS, SPREAD, Scenario, compared, simulate
from rlzoo.statistics.differences import Differences, RunScores, compare_rows
from rlzoo.statistics.family import Family, p_different
from rlzoo.statistics.interim_analyses import FIRST, looks, next_look, wants_seeds
from rlzoo.statistics.intervals import Distribution
from rlzoo.statistics.planning import detectable, seeds_needed
from rlzoo.statistics.spread import MODES_SHOWN_FROM


@dataclass(frozen=True)
class PValues:
    """Of all differences of a page, that each is what it is taken for: in doubt whether rows are stable, and not."""

    below: np.ndarray
    below_if_stable: np.ndarray

    @classmethod
    def of(cls, known: Sequence[Distribution], values: Sequence[float]) -> "PValues":
        """That the true differences are `values`."""
        pairs = list(zip(known, values, strict=True))
        return cls(
            np.array([it.below(value) for it, value in pairs]),
            np.array([it.if_stable().below(value) for it, value in pairs]),
        )

    @property
    def alone(self) -> np.ndarray:
        """Two-sided, of each by itself."""
        return _two_sided(self.below)

    def are_claimed(self, family: Family) -> np.ndarray:
        """Which are called different from that."""
        return np.array(family.adjusted(list(self.alone), list(_two_sided(self.below_if_stable)))) < 0.05


def _two_sided(below: np.ndarray) -> np.ndarray:
    return np.asarray(2 * np.minimum(below, 1 - below))


def outcome(generator: np.random.Generator, scenario: Scenario, seeds: int) -> dict[str, float]:
    """What one page did."""
    drawn = simulate(generator, scenario, seeds)
    comparisons = compared(drawn, scenario)
    family, first = Family.of(comparisons), comparisons[0]
    truth, last = scenario.truth, scenario.methods - scenario.real
    known = [(own, row, it) for own in comparisons for row, it in enumerate(own.to_baseline) if it]
    differences, rows = [it for *_, it in known], np.array([row for _, row, _ in known])
    of_truth = PValues.of(differences, truth[rows].tolist())
    refused = np.array([seeds < MODES_SHOWN_FROM and own.has_two_modes(row) for own, row, _ in known])
    of_moved = PValues.of(differences, np.where(rows >= last, -scenario.found, 0.0).tolist())
    tested = slice(last - 1, scenario.methods - 1)
    found, centers = of_moved.are_claimed(family)[tested], np.array([it.center for it in differences])[tested]
    last_known = differences[scenario.methods - 2]
    special = scenario.special
    unstable = {
        kind: [first.is_unstable(row) for row in range(scenario.methods) if (row in special) == kind]
        for kind in (True, False)
    }
    return {
        "false": float(np.any(of_truth.are_claimed(family) & ~refused)),
        "refused": float(np.mean(refused)),
        "covered": float(np.mean(of_truth.alone >= 0.05)),
        "stable covered": float(np.mean(of_truth.alone[~np.isin(rows, list(special))] >= 0.05)),
        "found": float(np.mean(found & (centers > -scenario.found))),
        "paired t": float(_paired_t(drawn[0], scenario.found) < 0.05 / (scenario.methods - 1)),
        "marked": float(np.mean(unstable[True])) if special else np.nan,
        "marked falsely": float(np.mean(unstable[False])),
        "falsely the same": float(min(family.adjusted(list(1 - of_truth.below))) < 0.05),
        "the same": float(p_different(last_known, scenario.found) < family.level),
        "correlation": first.paired.correlation if first.paired else 0.0,
    }


def _paired_t(rows: Sequence[RunScores], better: float) -> float:
    """Of the last row, if that were better by so much."""
    by_seed = rows[-1].values.mean(axis=1) + better - rows[0].values.mean(axis=1)
    t = by_seed.mean() / (by_seed.std(ddof=1) / np.sqrt(len(by_seed)) + 1e-12)
    return float(2 * stats.t.sf(abs(t), len(by_seed) - 1))


def verdicts(repetitions: int, *names: str) -> Iterator[str]:
    """A Markdown table of these scenarios, all unless some are named."""
    columns = ["false", "refused", "covered", "stable covered", "found", "paired t", "marked", "marked falsely"]
    columns += ["falsely the same", "the same", "correlation"]
    yield f"| scenario | seeds | pages | {' | '.join(columns)} |"
    yield "|---" * (3 + len(columns)) + "|"
    for name in names or SCENARIOS:
        scenario = SCENARIOS[name]
        for seeds in scenario.seeds:
            generator = np.random.default_rng([seeds, len(name)])
            found = [outcome(generator, scenario, seeds) for _ in range(repetitions)]
            mean = [np.mean([it[column] for it in found]) for column in columns]
            cells = ["" if np.isnan(value) else f"{100 * value:.1f}" for value in mean[:-1]]
            yield f"| {name} | {seeds} | {repetitions} | {' | '.join(cells)} | {mean[-1]:.2f} |"


# ---- planning --------------------------------------------------------------------------------------------------------


def planning(repetitions: int) -> Iterator[str]:
    """How many seeds a difference needs, beside what pages of 3, 5 and 10 seeds predict; a Markdown table."""
    yield "| difference | needed | predicted from | median | within a quarter | found at 80 % (points) | median said |"
    yield "|---" * 7 + "|"
    predicted = {seeds: [_plan(seeds, number) for number in range(repetitions)] for seeds in (3, 5, 10)}
    power = {seeds: _power(seeds, repetitions) for seeds in (3, 5, 10)}
    for place, difference in enumerate(PLANNED):
        needed = _needed(difference, repetitions)
        for seeds, plans in predicted.items():
            said = np.array([plan[place] for plan in plans])
            close = np.mean(np.abs(said - needed) <= max(1, needed / 4))
            found = f"{100 * power[seeds]:.1f} | {100 * np.median([plan[-1] for plan in plans]):.1f}"
            yield f"| {100 * difference:g} | {needed} | {seeds} | {np.median(said):g} | {close:.0%} | {found} |"


PLANNED = (0.02, 0.016)


def _page(seeds: int, number: int) -> tuple[Differences, Family]:
    drawn = simulate(np.random.default_rng([seeds, number, 1]), SCENARIOS["normal"], seeds)
    comparisons = compared(drawn, SCENARIOS["normal"])
    return comparisons[0], Family.of(comparisons)


def _plan(seeds: int, number: int) -> list[float]:
    """The seeds that a page says the planned differences need, and the difference that it says it would have found."""
    comparison, family = _page(seeds, number)
    known, spread, pair = comparison.to_baseline[-1], comparison.spread, comparison.pair(METHODS - 1)
    assert known and spread and pair
    said: list[float] = [seeds_needed(spread, pair, known, difference, family.level) for difference in PLANNED]
    return [*said, detectable(known, family.test_level, family.row_level)]


def _shifts(seeds: int, repetitions: int) -> np.ndarray:
    """[pages, rows] the true difference from which each row would have been called better."""
    shifts = []
    for number in range(repetitions):
        comparison, family = _page(seeds, number + 10**6)
        shifts.append([_reach(it, family) - 2 * it.center for it in comparison.to_baseline if it])
    return np.array(shifts)


def _reach(known: Distribution, family: Family) -> float:
    """The upper end of the differences that the page does not tell from this one."""
    stable = known.if_stable().quantile(1 - family.test_level / 2)
    return max(stable, known.quantile(1 - family.row_level / 2))


def _power(seeds: int, repetitions: int) -> float:
    """The true difference that is found with 80 % probability."""
    return float(np.quantile(_shifts(seeds, repetitions // 4), 0.8))


def _needed(difference: float, repetitions: int) -> int:
    """The seeds that find it with 80 % probability."""
    low, high = 2, 64
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _power(middle, repetitions) <= difference else (middle, high)
    return high


# ---- seeds where they decide -----------------------------------------------------------------------------------------

UP_TO = 10
SEQUENTIAL = {
    "seeds=auto, +5.4": Scenario(better=FOUND),
    "seeds=auto, +2": Scenario(better=0.02),
    "seeds=auto, +2, one method x 5": Scenario(better=0.02, wider={3: 5.0}),
    "seeds=auto, +2, correlated seeds": Scenario(better=0.02, common=0.9, spread=2 * SPREAD),
}


def sequential(repetitions: int) -> Iterator[str]:
    """Pages to which seeds are added until there are UP_TO; a Markdown table."""
    columns = ("false", "false at any look", "found", "runs", "seeds of the better", "of the others")
    yield f"| scenario | {' | '.join(columns)} |"
    yield "|---" * (1 + len(columns)) + "|"
    for number, (name, scenario) in enumerate(SEQUENTIAL.items()):
        generator = np.random.default_rng([number, UP_TO])
        found = np.array([sequential_page(generator, scenario) for _ in range(repetitions)]).mean(axis=0)
        shares = " | ".join(f"{100 * it:.1f}" for it in found[:3])
        yield f"| {name} | {shares} | {' | '.join(f'{it:.1f}' for it in found[3:])} |"


def sequential_page(generator: np.random.Generator, scenario: Scenario) -> list[float]:
    """What the table has, of one page that ends where no row wants further seeds."""
    every = simulate(generator, scenario, UP_TO)[0]
    seeds, ever_false = [FIRST] * METHODS, False
    while True:
        rows = [RunScores(own.seeds[:count], own.values[:count]) for own, count in zip(every, seeds, strict=True)]
        comparison = compare_rows(rows, 0, 1 / scenario.samples)
        family = Family.of([comparison], len(looks(UP_TO)))
        is_claimed = [False, *_claims(comparison, family)]
        is_false = any(is_claimed[:-1])
        ever_false = ever_false or is_false
        wanted = [row for row in comparison.others if _wants_seeds(comparison, row, is_claimed[row], family)]
        counts = {row: next_look(seeds[row], UP_TO) for row in wanted}
        counts[0] = max([seeds[0], *counts.values()])
        if all(seeds[row] == count for row, count in counts.items()):
            last = comparison.to_baseline[-1]
            found = is_claimed[-1] and last is not None and last.center > 0
            others = np.mean(seeds[1:-1])
            return [is_false, ever_false, found, float(sum(seeds)), seeds[-1], float(others)]
        seeds = [counts.get(row, count) for row, count in enumerate(seeds)]


BY_HAND = (3, 4, 5, 7)
"""Seeds at each look."""


def by_hand(repetitions: int) -> Iterator[str]:
    """Pages of equal methods at which somebody looks again after adding seeds; a Markdown table."""
    yield "| looks | grids | false at any, counted | false at any, not counted |"
    yield "|---" * 4 + "|"
    generator = np.random.default_rng(31)
    ever = np.array([_by_hand_page(generator, SCENARIOS["normal"]) for _ in range(repetitions)]).mean(axis=0)
    yield f"| {', '.join(map(str, BY_HAND))} seeds | {repetitions} | {100 * ever[0]:.1f} | {100 * ever[1]:.1f} |"


def _by_hand_page(generator: np.random.Generator, scenario: Scenario) -> list[bool]:
    every, counted, alone = simulate(generator, scenario, max(BY_HAND))[0], False, False
    for look, count in enumerate(BY_HAND, start=1):
        rows = [RunScores(own.seeds[:count], own.values[:count]) for own in every]
        comparison = compare_rows(rows, 0, 1 / scenario.samples)
        counted |= any(_claims(comparison, Family.of([comparison], look)))
        alone |= any(_claims(comparison, Family.of([comparison])))
    return [counted, alone]


def _claims(comparison: Differences, family: Family) -> list[bool]:
    """Which rows are called better or worse than the baseline."""
    known = [it for it in comparison.to_baseline if it]
    return list(map(bool, PValues.of(known, [0.0] * len(known)).are_claimed(family)))


def _wants_seeds(comparison: Differences, row: int, is_claimed: bool, family: Family) -> bool:
    known, spread, pair = comparison.to_baseline[row], comparison.spread, comparison.pair(row)
    assert known and spread and pair
    needed = seeds_needed(spread, pair, known, known.center, family.level)
    return wants_seeds(is_claimed, comparison.is_unstable(row), needed, UP_TO)


if __name__ == "__main__":
    tables: dict[str, Callable[..., Iterator[str]]] = {
        "verdicts": verdicts,
        "planning": planning,
        "sequential": sequential,
        "by_hand": by_hand,
    }
    for line in tables[sys.argv[1]](int(sys.argv[2]), *sys.argv[3:]):
        print(line, flush=True)
