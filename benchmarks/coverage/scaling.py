"""Whether intervals of A and C_mid cover, and what is refused: `python -m benchmarks.coverage.scaling 150`.

Pages of rows are simulated whose A, B and C_mid are known. Each seed has its own A and C_mid around those of its row,
each evaluation its own error, and each step a jitter that may last.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from rlzoo.statistics.scaling import Curves, Sigmoid, SigmoidFit, fit_rows

START = 0.42
SEED_ASYMPTOTE, SEED_MIDPOINT = 0.01, 0.1
"""Standard deviations over seeds, of A and of log C_mid."""


@dataclass(frozen=True)
class Scenario:
    """What the rows of a page are like. Ranges are those that each row's truth is drawn from."""

    rows: int = 8
    points: int = 11
    """Of each seed, the untrained model among them."""
    error: float = 0.007
    """Standard deviation of an evaluation."""
    jitter: float = 0.007
    """Standard deviation of what a trained model deviates from its seed's curve by."""
    lasting: float = 0.0
    """The correlation of a point's jitter with that of the point before."""
    common: float = 0.0
    """The share of the seeds' variance that all rows of a page have in common."""
    asymptote: tuple[float, float] = (0.62, 0.80)
    efficiency: tuple[float, float] = (1.4, 2.5)
    midpoint: tuple[float, float] = (0.15, 0.30)
    """Of what is trained."""
    falls: float = 0.0
    """How far accuracy falls again in the second half."""


ROLLOUTS = Scenario(points=51, error=0.02)
DETERMINED = {
    "jitter 0.35": Scenario(jitter=0.0035),
    "jitter 0.7": Scenario(),
    "jitter 1.4": Scenario(jitter=0.014),
    "jitter 1.4, lasting, 26 points": Scenario(points=26, jitter=0.014, lasting=0.7),
    "50 steps of rollouts": ROLLOUTS,
    "seeds in common by 0.7": Scenario(common=0.7),
    "one row": Scenario(rows=1),
    "one row, jitter 0.35": Scenario(rows=1, jitter=0.0035),
}
UNDETERMINED = {
    "flat": Scenario(asymptote=(START, START)),
    "ends before its midpoint": Scenario(midpoint=(1.1, 1.5)),
    "half of its rise": Scenario(midpoint=(0.9, 1.0), efficiency=(1.0, 1.5)),
    "up by 9 to 14 points, then down by 6 to 9": Scenario(asymptote=(0.52, 0.57), falls=0.10),
    "at once": Scenario(midpoint=(0.004, 0.008)),
}
BETWEEN = {
    "70 to 80 % of its rise": Scenario(midpoint=(0.30, 0.38), efficiency=(1.0, 1.2)),
    "60 to 65 % of its rise": Scenario(midpoint=(0.60, 0.65), efficiency=(1.0, 1.2)),
}


def truths(generator: np.random.Generator, scenario: Scenario) -> list[Sigmoid]:
    """One for each row."""
    ranges = (scenario.asymptote, scenario.efficiency, scenario.midpoint)
    return [Sigmoid(START, *(float(generator.uniform(*each)) for each in ranges)) for _ in range(scenario.rows)]


def simulate(generator: np.random.Generator, scenario: Scenario, rows: list[Sigmoid], seeds: int) -> list[Curves]:
    """The curves of a page, over compute from 0 to 1."""
    compute = np.linspace(0, 1, scenario.points)
    shared = generator.normal(size=(2, seeds))
    page = []
    for truth in rows:
        own = generator.normal(size=(2, seeds))
        high, fast = np.sqrt(scenario.common) * shared + np.sqrt(1 - scenario.common) * own
        lines = []
        for seed in range(seeds):
            asymptote = truth.asymptote + SEED_ASYMPTOTE * high[seed] * (truth.asymptote > START)
            midpoint = truth.midpoint * np.exp(SEED_MIDPOINT * fast[seed])
            line = replace(truth, asymptote=asymptote, midpoint=midpoint).at(compute)
            line -= scenario.falls * np.clip(2 * compute - 1, 0, 1)
            line += scenario.error * generator.normal(size=len(compute))
            lines.append(line + scenario.jitter * lasting(generator, scenario))
        page.append(Curves(np.tile(compute, (seeds, 1)), np.array(lines)))
    return page


def lasting(generator: np.random.Generator, scenario: Scenario) -> np.ndarray:
    """[points] of unit variance; the untrained model has none."""
    values, kept = generator.normal(size=scenario.points), scenario.lasting
    for point in range(2, scenario.points):
        values[point] = kept * values[point - 1] + np.sqrt(1 - kept**2) * values[point]
    values[0] = 0.0
    return values


def outcomes(scenario: Scenario, seeds: int, pages: int, draw: int = 0) -> np.ndarray:
    """[fits, 4] of what is not refused: whether A and C_mid are covered, half the width of A, and C_mid's by a factor.

    Refused rows are NaN.
    """
    generator, rows = np.random.default_rng([seeds, draw]), []
    for _ in range(pages):
        known = truths(generator, scenario)
        for truth, fit in zip(known, fit_rows(simulate(generator, scenario, known, seeds)), strict=True):
            if not isinstance(fit, SigmoidFit):
                rows.append([np.nan] * 4)
                continue
            high, fast = fit.asymptote, fit.midpoint
            covered = [high.low <= truth.asymptote <= high.high, fast.low <= truth.midpoint <= fast.high]
            rows.append([*covered, 100 * high.half_width, np.sqrt(fast.high / fast.low)])
    return np.array(rows, dtype=np.float64)


def table(pages: int) -> Iterator[str]:
    """Markdown, in %, points and factors."""
    yield "| curves | scenario | seeds | rows | refused | A covered | C_mid covered | A +- | C_mid x/ |"
    yield "|---" * 9 + "|"
    kinds = {"determined": DETERMINED, "between": BETWEEN, "not determined": UNDETERMINED}
    for kind, scenarios in kinds.items():
        for draw, (name, scenario) in enumerate(scenarios.items()):
            for seeds in (3, 5, 10):
                found = outcomes(
                    scenario, seeds, pages * 8 // scenario.rows // (1 if kind == "determined" else 5), draw
                )
                fits = found[~np.isnan(found[:, 0])]
                refused = 100 * (1 - len(fits) / len(found))
                covered = [f"{100 * share:.1f}" for share in fits[:, :2].mean(axis=0)] if len(fits) else ["", ""]
                medians = np.median(fits[:, 2:], axis=0) if len(fits) else []
                widths = [f"{median:.2f}" for median in medians] or ["", ""]
                cells = [kind, name, str(seeds), str(len(found)), f"{refused:.1f}", *covered, *widths]
                yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    for line in table(int(sys.argv[1])):
        print(line, flush=True)
