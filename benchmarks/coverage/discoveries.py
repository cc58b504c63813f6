"""Is one in twenty of what a page lists false? `python -m benchmarks.coverage.discoveries 200`."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.coverage.coverage import PValues
from benchmarks.coverage.scenarios import Scenario, compared, simulate
from rlzoo.statistics.family import Family, false_discovery_rates
from rlzoo.statistics.verdicts import FALSE_DISCOVERIES


@dataclass(frozen=True)
class Page:
    """Of how many decodings the better methods are better."""

    scenario: Scenario
    real_decodings: int = 2


MANY = Scenario(methods=20, spread=0.011, found=0.036, real=6, decodings=2, samples=32, noise=0.0045)
PAGES = {
    "20 methods, 6 better": Page(MANY),
    "20 methods, 6 better with one decoding": Page(MANY, 1),
    "20 methods, 12 better": Page(replace(MANY, real=12)),
    "20 methods, none better": Page(MANY, 0),
    "20 methods, 6 better, correlation 0.7": Page(replace(MANY, common=0.84)),
    "20 methods, 6 better, one x 5": Page(replace(MANY, wider={3: 5.0})),
    "20 methods, 6 better, the baseline x 5": Page(replace(MANY, wider={0: 5.0})),
}
FIGURES = ("false share", "pages with any", "found")


def simulated(generator: np.random.Generator, page: Page, seeds: int) -> np.ndarray:
    """[list or verdicts, decodings, figures]: which share is false, whether any is, which of the better are there."""
    scenario = page.scenario
    comparisons = compared(simulate(generator, scenario, seeds), scenario)
    family, better = Family.of(comparisons), np.arange(1, scenario.methods) >= scenario.methods - scenario.real
    is_better = [better & (place < page.real_decodings) for place in range(scenario.decodings)]
    tested = [
        PValues.of([known for known in comparison.to_baseline if known], np.where(real, -scenario.found, 0.0).tolist())
        for comparison, real in zip(comparisons, is_better, strict=True)
    ]
    whole = PValues(
        np.concatenate([known.below for known in tested]), np.concatenate([known.below_if_stable for known in tested])
    )
    claimed = np.split(whole.are_claimed(family), scenario.decodings)
    listed = [np.array(false_discovery_rates(known.alone.tolist())) <= FALSE_DISCOVERIES for known in tested]
    lists = [rows | claims for rows, claims in zip(listed, claimed, strict=True)]
    return np.array([[_figures(*pair) for pair in zip(each, is_better, strict=True)] for each in (lists, claimed)])


def _figures(named: np.ndarray, is_better: np.ndarray) -> list[float]:
    false = np.sum(named & ~is_better)
    return [false / max(1, np.sum(named)), float(false > 0), np.mean(named[is_better]) if is_better.any() else np.nan]


def table(repetitions: int) -> Iterator[str]:
    """In %, in Markdown."""
    columns = [f"{of}: {figure}" for of in ("list", "verdicts") for figure in FIGURES]
    yield f"| scenario | seeds | decoding | pages | {' | '.join(columns)} |"
    yield "|---" * (4 + len(columns)) + "|"
    for name, page in PAGES.items():
        for seeds in (3, 5):
            generator = np.random.default_rng([seeds, len(name), 5])
            means = np.mean([simulated(generator, page, seeds) for _ in range(repetitions)], axis=0)
            for decoding in range(page.scenario.decodings):
                cells = ["" if np.isnan(value) else f"{100 * value:.1f}" for value in means[:, decoding].flatten()]
                yield f"| {name} | {seeds} | {decoding + 1} | {repetitions} | {' | '.join(cells)} |"


if __name__ == "__main__":
    for line in table(int(sys.argv[1])):
        print(line, flush=True)
