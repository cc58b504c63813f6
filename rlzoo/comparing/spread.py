"""How far the runs of a row lie apart from seed to seed, learnt from all rows of a page.

Two or three seeds say little of a row's variance, but the rows are much alike. Smyth (2004, Statistical Applications in
Genetics and Molecular Biology 3:1) takes the true variances as drawn from a scaled inverse chi-square with d0 degrees
of freedom around s0^2, so that a row's variance s^2 with d of its own is s0^2 F(d, d0), and is moderated to
(d0 s0^2 + d s^2) / (d0 + d) with d0 + d degrees (equations 2 to 4 there).

That fails where one method is unstable. As in the robust version of Phipson et al. (2016, Annals of Applied Statistics
10:2), such rows are left out of the prior and to their own variance, by the probability that they are. With so few rows
this probability is that of a mixture: a row is stable, or it is drawn from a wide second prior with WILDER times the
variance, and of a page 1.5 rows are expected to be. A row in doubt has both variances, each with its probability.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

PRIOR_DEGREES = (2.0, 4.0, 8.0, 16.0, 32.0)
"""What d0 may be; there are too few rows to say more."""
WILDER = 16.0
WILD_DEGREES = 2.0
WILD_ROWS = 1.5
MARKED = 4.0
"""A row is called unstable if that makes its spread so many times as probable."""
ROUNDS = 15


@dataclass(frozen=True)
class Spread:
    """Variances of one run, [rows, 2]: if the row is stable and if it is not."""

    prior_variance: float
    """s0^2."""
    prior_degrees: float
    """d0."""
    weights: np.ndarray
    """[rows, 2] the probabilities of both."""
    variances: np.ndarray
    degrees: np.ndarray
    pooled_degrees: float
    """What all stable rows know together; no variance is known better."""
    correlation: float
    """Of the runs of two rows with the same seed."""

    def is_unstable(self, row: int) -> bool:
        """Whether it is to be called so."""
        wild = _wild(len(self.weights))
        return bool(self.weights[row, 1] * (1 - wild) > MARKED * self.weights[row, 0] * wild)


def learn_spread(means: Sequence[np.ndarray], seeds: Sequence[Sequence[int]], floor: float) -> Spread:
    """The spread of each row from its runs' means and seeds, two or more; variances are at least `floor`."""
    degrees = np.array([len(own) - 1.0 for own in means])
    variances = np.array([max(own.var(ddof=1), floor) for own in means])
    fits = [_fit(variances, degrees, prior_degrees) for prior_degrees in PRIOR_DEGREES]
    prior_degrees, prior_variance, stable, _ = max(fits, key=lambda fit: fit[3])
    priors = np.array([prior_degrees, WILD_DEGREES])
    scales = prior_variance * np.array([1.0, WILDER])
    own = degrees[:, None]
    moderated = (priors * scales + own * variances[:, None]) / (priors + own)
    pooled = max(float(stable @ degrees), float(degrees.max()))
    known = np.minimum(priors + own, [pooled, np.inf])
    weights = np.stack([stable, 1 - stable], axis=1)
    alike = [row for row in range(len(means)) if stable[row] > 0.5]
    correlation = _correlation([means[row] for row in alike], [seeds[row] for row in alike], floor)
    return Spread(prior_variance, prior_degrees, weights, moderated, known, pooled, correlation)


def _wild(rows: int) -> float:
    """The probability that a row is unstable, before its runs are seen."""
    return min(0.5, WILD_ROWS / rows)


def _fit(variances: np.ndarray, degrees: np.ndarray, prior_degrees: float) -> tuple[float, float, np.ndarray, float]:
    """d0 as given, s0^2 by expectation and maximisation, each row's probability of being stable, the log-likelihood."""
    wild = _wild(len(variances))
    scale = float(np.median(variances / (stats.chi2.median(degrees) / degrees)))
    for _ in range(ROUNDS):
        calm = np.log1p(-wild) + _log_density(variances, degrees, prior_degrees, scale)
        wilder = np.log(wild) + _log_density(variances, degrees, WILD_DEGREES, WILDER * scale)
        both = np.logaddexp(calm, wilder)
        stable = np.exp(calm - both)
        share = stable * degrees * (prior_degrees + degrees) / (prior_degrees + degrees * variances / scale)
        scale = float(share @ variances / (stable @ degrees))
    return prior_degrees, scale, stable, float(both.sum())


def _log_density(variances: np.ndarray, degrees: np.ndarray, prior_degrees: float, scale: float) -> np.ndarray:
    """Of variances that are `scale` times F(degrees, prior_degrees)."""
    ratio = degrees / prior_degrees
    value = variances / scale
    shape = np.log(ratio) * degrees / 2 + (degrees / 2 - 1) * np.log(value)
    shape -= (degrees + prior_degrees) / 2 * np.log1p(ratio * value)
    return np.asarray(shape - special.betaln(degrees / 2, prior_degrees / 2) - np.log(scale))


def _correlation(means: Sequence[np.ndarray], seeds: Sequence[Sequence[int]], floor: float) -> float:
    """The intraclass correlation of seeds over rows, median-unbiased (Shrout and Fleiss 1979), or 0 if it is negative.

    Seeds that not all rows have do not count.
    """
    shared = sorted(set(seeds[0]).intersection(*seeds[1:])) if seeds else []
    rows, count = len(means), len(shared)
    if rows < 2 or count < 2:
        return 0.0
    table = np.stack([own[[list(has).index(seed) for seed in shared]] for own, has in zip(means, seeds, strict=True)])
    table = table - table.mean(axis=1, keepdims=True)
    by_seed = table.mean(axis=0)
    between = rows * np.square(by_seed).sum() / (count - 1)
    within = np.square(table - by_seed).sum() / ((rows - 1) * (count - 1))
    ratio = between / max(within, floor) / stats.f.median(count - 1, (rows - 1) * (count - 1))
    return float(max(0.0, (ratio - 1) / (ratio + rows - 1)))
