"""Is one in twenty of a page's list of discoveries false? `python benchmarks/coverage/discoveries.py 400`."""

import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from coverage import PValues, Scenario, compared, simulate

from rlzoo.report.board_sentences import FALSE_DISCOVERIES
from rlzoo.statistics.differences import Family

MANY = Scenario(methods=20, spread=0.011, found=0.036, real=6, decodings=2, samples=32, noise=0.0045)
SCENARIOS = {
    "20 methods, 6 better": MANY,
    "20 methods, 12 better": replace(MANY, real=12),
    "20 methods, none better": replace(MANY, found=0.0),
    "20 methods, 6 better, correlation 0.7": replace(MANY, common=0.84),
    "20 methods, 6 better, one x 5": replace(MANY, wider={3: 5.0}),
    "20 methods, 6 better, the baseline x 5": replace(MANY, wider={0: 5.0}),
    "47 methods, 15 better": replace(MANY, methods=47, real=15),
}


def page(generator: np.random.Generator, scenario: Scenario, seeds: int) -> list[float]:
    """Of the list and of the verdicts: which share is false, whether any is, and which share of the better is there."""
    comparisons = compared(simulate(generator, scenario, seeds), scenario)
    known = [
        (row, difference)
        for comparison in comparisons
        for row, difference in enumerate(comparison.to_baseline)
        if difference
    ]
    is_better = np.array([row >= scenario.methods - scenario.real for row, _ in known]) & (scenario.found > 0)
    family = Family.of(comparisons)
    tested = PValues.of([difference for _, difference in known], np.where(is_better, -scenario.found, 0.0).tolist())
    is_claimed = tested.are_claimed(family)
    is_listed = np.array(family.false_discovery_rates(tested.alone.tolist())) <= FALSE_DISCOVERIES
    return [
        value
        for claimed in (is_listed | is_claimed, is_claimed)
        for value in (
            float(np.sum(claimed & ~is_better) / max(1, np.sum(claimed))),
            float(np.any(claimed & ~is_better)),
            float(np.mean(claimed[is_better])) if is_better.any() else np.nan,
        )
    ]


def table(repetitions: int) -> Iterator[str]:
    """In %, in Markdown."""
    columns = [f"{of}: {what}" for of in ("list", "verdicts") for what in ("false share", "pages with any", "found")]
    yield f"| scenario | seeds | pages | {' | '.join(columns)} |"
    yield "|---" * (3 + len(columns)) + "|"
    for name, scenario in SCENARIOS.items():
        for seeds in (3, 5):
            generator = np.random.default_rng([seeds, len(name), 5])
            mean = np.mean([page(generator, scenario, seeds) for _ in range(repetitions)], axis=0)
            cells = " | ".join("" if np.isnan(value) else f"{100 * value:.1f}" for value in mean)
            yield f"| {name} | {seeds} | {repetitions} | {cells} |"


if __name__ == "__main__":
    for line in table(int(sys.argv[1])):
        print(line, flush=True)
