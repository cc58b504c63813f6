"""Where a true mean lies: a distribution, and from it intervals that hold near 0 and 1 too.

A mean over seeds and problems is uncertain for two reasons: training again with other seeds gives other models, and
other problems could have been asked. Its distribution has a stage for each.

1. **Seeds.** A few are too few to resample (a bootstrap of three values knows two thirds of their variance, and no
   tails), so this stage is Student's t, or a mixture of several where the spread over the seeds is in doubt.
2. **Problems** are resampled with replacement, the same ones for every method, so that differences are paired. Their
   deviations are shrunk by what the residual of problem and seed explains, as that is in the spread of the runs too.

Samples need no stage: their noise is in both spreads. The sum of a t and a nearly normal variable is the
Behrens-Fisher problem. Its usual answer covers too often, and the matching prior (Ghosh and Kim 2001, Canadian Journal
of Statistics 29:5) too rarely with so few seeds. The mean of the two priors is taken: a part of the t draws gives way
to narrower ones with two more degrees of freedom.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy import optimize, special  # scipy.stats takes a second to import

RESAMPLES = 5_000
NODES = 250
LEAST_DEGREES = 4.0
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval, 95 % unless stated otherwise."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the interval's width."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class SeedError:
    """What other seeds could change: Student's t, with the probability that this is the one."""

    weight: float
    error: float
    degrees: float


@dataclass(frozen=True)
class Distribution:
    """Where the true mean lies: `center` plus the deviations of the two stages."""

    center: float
    seeds: Sequence[SeedError]
    """What holds if all rows are stable is the first. Empty where one seed says nothing of others."""
    deviations: np.ndarray
    """[nodes] equally likely deviations of resampled problems."""

    def if_stable(self) -> "Distribution":
        """Without the doubt whether rows are stable."""
        return replace(self, seeds=[replace(case, weight=1.0) for case in self.seeds[:1]])

    def below(self, value: float) -> float:
        """The probability that the true mean is below `value`."""
        left = value - self.center - self.deviations
        if not self.seeds:
            return float(np.mean((left > 0) + 0.5 * (left == 0)))
        return float(sum(case.weight * _t_below(left, case, self.deviations.var()) for case in self.seeds))

    def quantile(self, probability: float) -> float:
        """What the true mean is below with this probability."""
        if not self.seeds:
            return self.center + float(np.quantile(self.deviations, probability))
        outside = min(probability, 1 - probability) / 10
        reach = np.abs(self.deviations).max() + max(
            -special.stdtrit(case.degrees, outside) * case.error for case in self.seeds
        )
        ends = (self.center - reach, self.center + reach)
        return float(optimize.brentq(lambda x: self.below(x) - probability, *ends, xtol=1e-8))

    def interval(self, level: float = LEVEL) -> Estimate:
        """The central interval."""
        return Estimate(self.center, self.quantile((1 - level) / 2), self.quantile((1 + level) / 2))

    def p_value(self, value: float = 0.0) -> float:
        """Two-sided, of the true mean being `value`."""
        below = self.below(value)
        return 2 * min(below, 1 - below)


def _t_below(left: np.ndarray, seeds: SeedError, problem_variance: float) -> float:
    narrower = 0.5 * problem_variance / (seeds.error**2 + problem_variance)
    t, more = left / seeds.error, seeds.degrees + 2
    wide = special.stdtr(seeds.degrees, t)
    if narrower > 0:
        wide = (1 - narrower) * wide + narrower * special.stdtr(more, t * np.sqrt(more / seeds.degrees))
    return float(wide.mean())


# ---- problems --------------------------------------------------------------------------------------------------------


def resampled_deviations(values: np.ndarray) -> np.ndarray:
    """[RESAMPLES, ...] deviations of the mean of resampled [problems, ...] values; the same problems at every call."""
    count = len(values)
    if count == 1:
        return np.zeros((RESAMPLES, *values.shape[1:]))
    centred = (values - values.mean(axis=0)) * np.sqrt(count / (count - 1)) / count
    picked = _picked(count)
    return np.concatenate([part.astype(np.float64) @ centred for part in np.array_split(picked, 10)])


@lru_cache(maxsize=4)
def _picked(count: int) -> np.ndarray:
    """[RESAMPLES, count] how often each problem is in each resample."""
    generator = np.random.default_rng(0)
    rows = (np.bincount(generator.integers(count, size=count), minlength=count) for _ in range(RESAMPLES))
    return np.stack([row.astype(np.uint8) for row in rows])


def nodes_of(deviations: np.ndarray, problems: float, shrunk: float = 1.0) -> np.ndarray:
    """[NODES] quantiles of [RESAMPLES] deviations, shrunk, with the heavier tails of few problems.

    A resample knows no t: its quantiles are expanded from a normal's to those (Hesterberg 2015, American Statistician
    69:4). The degrees of freedom are Satterthwaite's for a variance from which another was subtracted.
    """
    places = (np.arange(NODES) + 0.5) / NODES
    wider = special.stdtrit(max(LEAST_DEGREES, (problems - 1) * shrunk**4), places) / special.ndtri(places)
    return np.asarray(shrunk * np.sort(deviations).reshape(NODES, -1).mean(axis=1) * wider)


def shrinkage(values: np.ndarray) -> float:
    """What remains of the problems' deviations when the part that the spread over seeds has too is taken out.

    `values` are [seeds, problems].
    """
    seeds, by_problem = len(values), values.mean(axis=0)
    spread = np.square(by_problem - by_problem.mean()).sum()
    if seeds == 1 or spread == 0:
        return 1.0
    residual = values - values.mean(axis=1, keepdims=True) - by_problem + by_problem.mean()
    return float(np.sqrt(max(0.0, 1 - np.square(residual).sum() / (seeds * (seeds - 1) * spread))))


# ---- near the ends ---------------------------------------------------------------------------------------------------


def share(known: Distribution, problems: float) -> Estimate:
    """The 95 % interval of a mean of values from 0 to 1, within these.

    Clopper and Pearson's for as many answers as would leave the same doubt, the effective number of Korn and Graubard
    (1998, Survey Methodology 24:2). Where nothing varies, as all is right or all wrong, it is the number of problems.
    """
    mean, half_width, tail = known.center, known.interval().half_width, (1 - LEVEL) / 2
    variance = mean * (1 - mean)
    answers = special.ndtri(tail) ** 2 * variance / half_width**2 if half_width > 0 and variance > 0 else problems
    right, wrong = mean * answers, (1 - mean) * answers
    low = special.betaincinv(right, wrong + 1, tail) if right > 0 else 0.0
    high = special.betainccinv(right + 1, wrong, tail) if wrong > 0 else 1.0
    return Estimate(mean, float(low), float(high))


# ---- means of runs ---------------------------------------------------------------------------------------------------


def distribution(scores: np.ndarray, samples: int) -> Distribution:
    """The distribution of the mean of [seeds, problems] scores (or differences), each a mean over `samples`.

    With one seed it speaks of that one trained model alone (arXiv:2411.00640).
    """
    scores = np.asarray(scores, dtype=np.float64)
    (seeds, problems), by_seed = scores.shape, scores.mean(axis=1)
    deviations = nodes_of(resampled_deviations(scores.mean(axis=0)), problems, shrinkage(scores))
    if seeds == 1:
        return Distribution(float(scores.mean()), [], deviations)
    step = 1 / (problems * samples)  # scores of a run are multiples of it, so that unequal runs can look equal
    variance = max(by_seed.var(ddof=1), step**2 / 12)
    return Distribution(float(scores.mean()), [SeedError(1.0, float(np.sqrt(variance / seeds)), seeds - 1)], deviations)


def mean_over_runs(scores: np.ndarray) -> Estimate:
    """The mean of [seeds, problems, samples] scores from 0 to 1."""
    return share(distribution(scores.mean(axis=2), scores.shape[2]), scores.shape[1])


def mean_over_problems(scores: np.ndarray) -> Estimate:
    """The mean of [problems, samples] scores of one run, from 0 to 1."""
    return mean_over_runs(np.asarray(scores, dtype=np.float64)[None])


def macro_average(scores: Sequence[np.ndarray]) -> Estimate:
    """The mean over benchmarks of the means of their [problems, samples] scores; problems are resampled within each."""
    values = [np.asarray(on_set, dtype=np.float64).mean(axis=1) for on_set in scores]
    generator = np.random.default_rng(0)
    deviations = np.mean([generator.permutation(resampled_deviations(by_problem)) for by_problem in values], axis=0)
    problems = len(values) ** 2 / sum(1 / len(by_problem) for by_problem in values)
    center = float(np.mean([by_problem.mean() for by_problem in values]))
    return share(Distribution(center, [], nodes_of(deviations, problems)), problems)


def paired_difference(before: np.ndarray, after: np.ndarray) -> Estimate:
    """The mean of after - before over the same problems, [problems, samples] each, of one run."""
    change = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
    return distribution(change.mean(axis=1)[None], change.shape[1]).interval()
