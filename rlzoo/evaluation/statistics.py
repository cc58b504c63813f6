"""How far an evaluation, and a difference between two methods, can be trusted.

Scores are [seeds, problems, samples]: run s answers problem p several times, every run the same problems. A mean over
all of them is uncertain for two reasons: training again with other seeds gives other models, and other problems could
have been asked. Its distribution is a hierarchical bootstrap with two stages.

1. **Seeds.** Three seeds are too few to resample (a bootstrap of three values knows two thirds of their variance, and
   no tails), so this stage draws from Student's t with seeds - 1 degrees of freedom, scaled by the spread of the runs.
2. **Problems** are resampled with replacement, the same ones for every method, so that differences are paired. Their
   deviations are shrunk by what the residual of problem and seed explains, as that is in the spread of the runs too.

Samples need no stage: their noise is in both spreads. With one seed there is no first stage, nothing is shrunk, and
the interval speaks of that one trained model alone (arXiv:2411.00640).

The sum of a t and a nearly normal variable is the Behrens-Fisher problem. Its usual answer covers too often, and the
matching prior (Ghosh and Kim 2001, Canadian Journal of Statistics 29:5) too rarely with so few seeds. The mean of the
two priors is taken: a part of the t draws gives way to narrower ones with two more degrees of freedom.
`benchmarks/coverage/coverage.py` measures how often the 95 % interval of a paired difference covers the truth.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special, stats

RESAMPLES = 10_000
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the interval's width."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Difference(Estimate):
    """A method minus the baseline."""

    p_improvement: float
    """P(improvement): the probability that the true difference is above zero."""
    p_value: float
    """Two-sided, of there being no difference."""


@dataclass(frozen=True)
class Distribution:
    """Where the true mean lies: `center` plus the deviations of the two stages."""

    center: float
    seed_error: float
    """Standard error from the seeds; 0 with one seed."""
    degrees: int
    """Seeds - 1."""
    deviations: np.ndarray
    """[nodes] equally likely deviations of resampled problems."""

    def below(self, value: float) -> float:
        """The probability that the true mean is below `value`."""
        left = value - self.center - self.deviations
        if self.seed_error == 0:
            return float(np.mean((left > 0) + 0.5 * (left == 0)))
        narrower = 0.5 * self.deviations.var() / (self.seed_error**2 + self.deviations.var())
        t, more = left / self.seed_error, self.degrees + 2
        wide, narrow = special.stdtr(self.degrees, t), special.stdtr(more, t * np.sqrt(more / self.degrees))
        return float(((1 - narrower) * wide + narrower * narrow).mean())

    def quantile(self, probability: float) -> float:
        """What the true mean is below with this probability."""
        if self.seed_error == 0:
            return self.center + float(np.quantile(self.deviations, probability))
        farthest = stats.t.isf(min(probability, 1 - probability) / 10, self.degrees)
        reach = farthest * self.seed_error + np.abs(self.deviations).max()
        ends = (self.center - reach, self.center + reach)
        return float(optimize.brentq(lambda x: self.below(x) - probability, *ends, xtol=1e-8))

    def interval(self) -> tuple[float, float]:
        """The central 95 %."""
        return self.quantile((1 - LEVEL) / 2), self.quantile((1 + LEVEL) / 2)


def distribution(scores: np.ndarray, samples: int) -> Distribution:
    """The distribution of the mean of [seeds, problems] scores (or differences), each a mean over `samples`."""
    scores = np.asarray(scores, dtype=np.float64)
    (seeds, problems), center = scores.shape, float(scores.mean())
    by_seed, by_problem = scores.mean(axis=1), scores.mean(axis=0)
    deviations = resampled_deviations(by_problem)
    if seeds == 1:
        return Distribution(center, 0.0, 0, deviations)
    step = 1 / (problems * samples)  # scores of a run are multiples of it, so that unequal runs can look equal
    seed_variance = max(by_seed.var(ddof=1), step**2 / 12)
    residual = scores - by_seed[:, None] - by_problem + center
    noise = np.square(residual).sum() / (seeds - 1)
    spread = seeds * np.square(by_problem - center).sum()
    shrinkage = np.sqrt(max(0.0, 1 - noise / spread)) if spread > 0 else 0.0
    return Distribution(center, float(np.sqrt(seed_variance / seeds)), seeds - 1, shrinkage * deviations)


def resampled_deviations(values: np.ndarray, nodes: int = 500) -> np.ndarray:
    """Quantiles of what the mean of resampled [problems] values deviates by; the same problems at every call."""
    return np.quantile(_deviations(values, np.random.default_rng(0)), (np.arange(nodes) + 0.5) / nodes)


def _deviations(values: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """[RESAMPLES] differences between the mean of resampled [problems] values and their mean."""
    if np.ptp(values) == 0:
        return np.zeros(RESAMPLES)
    count, batches = len(values), 10
    picks = (generator.integers(count, size=(RESAMPLES // batches, count)) for _ in range(batches))
    means = np.concatenate([values[pick].mean(axis=1) for pick in picks])
    return (means - values.mean()) * np.sqrt(count / (count - 1))


def mean_over_runs(scores: np.ndarray) -> Estimate:
    """The mean of [seeds, problems, samples] scores."""
    known = distribution(scores.mean(axis=2), scores.shape[2])
    return Estimate(known.center, *known.interval())


def difference_of_runs(scores: np.ndarray, baseline: np.ndarray) -> Difference:
    """The mean of scores - baseline, [seeds, problems, samples] each, paired by seed and problem."""
    known = distribution(scores.mean(axis=2) - baseline.mean(axis=2), scores.shape[2])
    below = known.below(0.0)
    return Difference(known.center, *known.interval(), p_improvement=1 - below, p_value=2 * min(below, 1 - below))


def mean_over_problems(scores: np.ndarray) -> Estimate:
    """The mean of [problems, samples] scores of one run."""
    return mean_over_runs(np.asarray(scores, dtype=np.float64)[None])


def macro_average(scores: Sequence[np.ndarray]) -> Estimate:
    """The mean over benchmarks of the means of their [problems, samples] scores; problems are resampled within each."""
    generator, values = np.random.default_rng(0), [np.asarray(one, dtype=np.float64).mean(axis=1) for one in scores]
    center = float(np.mean([one.mean() for one in values]))
    deviations = np.mean([_deviations(one, generator) for one in values], axis=0)
    low, high = np.quantile(deviations, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(center, center + float(low), center + float(high))


def paired_difference(before: np.ndarray, after: np.ndarray) -> Difference:
    """The mean of after - before over the same problems, [problems, samples] each, of one run."""
    return difference_of_runs(np.asarray(after, dtype=np.float64)[None], np.asarray(before, dtype=np.float64)[None])


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for their number: to call those below 0.05 errs anywhere in at most 5 % (Holm 1979)."""
    adjusted, running, count = [0.0] * len(p_values), 0.0, len(p_values)
    for rank, index in enumerate(np.argsort(p_values, kind="stable")):
        running = max(running, min(1.0, (count - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted


def probability_of_improvement(runs: Sequence[float], baseline: Sequence[float]) -> float:
    """The share of pairs of runs that the baseline loses, a tie counting half (rliable, arXiv:2108.13264)."""
    ahead = np.subtract.outer(np.asarray(runs), np.asarray(baseline))
    return float(np.mean((ahead > 0) + 0.5 * (ahead == 0)))


def pass_at_k(correct: np.ndarray, k: int) -> np.ndarray:
    """[problems] probability that one of k of the samples, drawn without replacement, is right.

    `correct` is [problems, samples]. Unbiased: 1 - C(n-c, k) / C(n, k) (arXiv:2107.03374).
    """
    right = np.asarray(correct) == 1
    return stats.hypergeom.sf(0, right.shape[1], right.sum(axis=1), k)


def powers_of_two(largest: int) -> list[int]:
    """1, 2, 4, ... up to `largest`, and that itself."""
    return sorted({*(2**i for i in range(largest.bit_length())), largest})


def majority_at_k(correct: np.ndarray, answers: Sequence[Sequence[Hashable]]) -> np.ndarray:
    """[problems] maj@k, k all samples: whether the most frequent answer is right; among equally frequent, the share.

    All right answers are one answer, however they are written. A sample without an answer (`None`) has no vote.
    """
    return np.array([_majority(row, texts) for row, texts in zip(np.asarray(correct) == 1, answers, strict=True)])


def _majority(right: np.ndarray, answers: Sequence[Hashable]) -> float:
    wrong = [answer for answer, is_right in zip(answers, right, strict=True) if not is_right and answer is not None]
    votes = [wrong.count(answer) for answer in set(wrong)]
    most = max([int(right.sum()), *votes])
    return float(right.sum() == most) / (votes.count(most) + 1) if right.any() else 0.0
