"""What a page could have found, and how many seeds would find a given difference."""

from collections.abc import Callable

import numpy as np
from scipy import optimize, special, stats

from rlzoo.statistics.intervals import Distribution
from rlzoo.statistics.spread import Spread

POWER = 0.8
MOST_SEEDS = 1000
MOST_DEGREES = 1000.0


def detectable(known: Distribution, level: float, level_in_doubt: float) -> float:
    """The true difference that would have been found with 80 % probability: by a p-value below `level` if all rows are
    stable, and below `level_in_doubt` if that is doubted.
    """
    return max(_detectable(known.if_stable(), level), _detectable(known, level_in_doubt))


def _detectable(known: Distribution, level: float) -> float:
    """The true difference that a p-value below `level` would have shown with 80 % probability.

    That of a noncentral t whose tails are as heavy: how far the interval reaches is uncertain by as much.
    """
    reach, quarter = known.quantile(1 - level / 2) - known.center, known.quantile(0.75) - known.center
    if not known.seeds:
        return reach + known.quantile(POWER) - known.center

    def heavier(degrees: float) -> float:
        return float(stats.t.isf(level / 2, degrees) / stats.t.isf(0.25, degrees)) - reach / quarter

    degrees = MOST_DEGREES if heavier(MOST_DEGREES) > 0 else optimize.brentq(heavier, 0.5, MOST_DEGREES)
    scale = quarter / stats.t.isf(0.25, degrees)
    return float(special.nctdtrinc(degrees, 1 - POWER, reach / scale) * scale)


def seeds_needed(spread: Spread, pair: tuple[int, int], known: Distribution, difference: float, level: float) -> int:
    """Number of seeds that find a true difference with 80 % probability, on the same problems; 0 if MOST_SEEDS do not.

    Uses Smyth's moderated t with the degrees of freedom of that number of seeds, and the variance from problems.
    """
    by_seed = float(sum(spread.weights[row] @ spread.variances[row] for row in pair))
    rows, problems = len(spread.weights), float(known.deviations.var())

    def finds(seeds: int) -> bool:
        variance = by_seed / seeds + problems
        free = min(2 * (spread.prior_degrees + seeds - 1), rows * (seeds - 1))
        degrees = min(free * (variance * seeds / by_seed) ** 2, 1e6)
        critical = stats.t.isf(level / 2, degrees)
        return bool(special.nctdtr(degrees, min(abs(difference) / np.sqrt(variance), 30.0), critical) <= 1 - POWER)

    return fewest(finds, MOST_SEEDS)


def fewest(finds: Callable[[int], bool], most: int) -> int:
    """The smallest number from 2 up that finds something, as all larger ones do; 0 if `most` does not."""
    low, high = 1, 2
    while not finds(high):
        low, high = high, 2 * high
        if low >= most:
            return 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if finds(middle) else (middle, high)
    return high
