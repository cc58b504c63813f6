"""How far the runs of a row lie apart from seed to seed, learnt from all rows of a page.

Two or three seeds say little of a row's variance, but the rows are much alike. Smyth (2004, Statistical Applications in
Genetics and Molecular Biology 3:1) takes the true variances as drawn from a scaled inverse chi-square with d0 degrees
of freedom around s0^2, so that a row's variance s^2 with d of its own is s0^2 F(d, d0), and is moderated to
(d0 s0^2 + d s^2) / (d0 + d) with d0 + d degrees (equations 2 to 4 there).

That fails where one method is unstable. As in the robust version of Phipson et al. (2016, Annals of Applied Statistics
10:2), such rows are left out of the prior and to their own variance, by the probability that they are. With so few rows
this probability is that of a mixture: a row is stable, or it is drawn from a wide second prior with WILDER times the
variance, and of a page 1.1 rows are expected to be. A row in doubt has both variances, each with its probability.

Runs of one seed share data and draws, and a difference of two rows is free of what they share. So rows that have seeds
in common are two-way data, a run being its row, its seed and a residual; the spread of the residuals is what a
difference has. The seeds' part is a mean over the rows weighted by their probability of being stable, so that one wild
row does not decide it. It costs each row the degrees of freedom that it has in that mean: two rows alone have what a
paired t has.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

PRIOR_DEGREES = (2.0, 4.0, 8.0, 16.0, 32.0)
"""What d0 may be; there are too few rows to say more."""
WILDER = 25.0
WILD_DEGREES = 2.0
WILD_ROWS = 1.1
MARKED = 4.0
"""A row is called unstable if instability makes its spread this many times as probable."""
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

    def is_unstable(self, row: int) -> bool:
        """Whether it is to be called so."""
        wild = _wild(len(self.weights))
        return bool(self.weights[row, 1] * (1 - wild) > MARKED * self.weights[row, 0] * wild)


def learn_spread(means: Sequence[np.ndarray], floor: float, prior_degrees: Sequence[float] = PRIOR_DEGREES) -> Spread:
    """The spread of each row from its runs' means, two or more; variances are at least `floor`.

    `prior_degrees` are what d0 may be: few where rows are not much alike.
    """
    deviations = [by_seed - by_seed.mean() for by_seed in means]
    return _learn(deviations, np.array([len(by_seed) - 1.0 for by_seed in means]), floor, prior_degrees)


def _learn(
    deviations: Sequence[np.ndarray],
    degrees: np.ndarray,
    floor: float,
    may_be: Sequence[float] = PRIOR_DEGREES,
) -> Spread:
    """From deviations whose squares add up to `degrees` variances in each row."""
    squares = np.array([np.square(by_seed).sum() for by_seed in deviations])
    variances = np.maximum(squares / degrees, floor)
    prior_degrees, prior_variance, stable = _fit(variances, degrees, may_be)
    priors = np.array([prior_degrees, WILD_DEGREES])
    scales = prior_variance * np.array([1.0, WILDER])
    of_row = degrees[:, None]
    moderated = (priors * scales + of_row * variances[:, None]) / (priors + of_row)
    pooled = max(float(stable @ degrees), float(degrees.max()))
    known = np.minimum(priors + of_row, [pooled, np.inf])
    weights = np.stack([stable, 1 - stable], axis=1)
    return Spread(prior_variance, prior_degrees, weights, moderated, known, pooled)


def _wild(rows: int) -> float:
    """The probability that a row is unstable, before its runs are seen."""
    return min(0.5, WILD_ROWS / rows)


def _fit(variances: np.ndarray, degrees: np.ndarray, may_be: Sequence[float]) -> tuple[float, float, np.ndarray]:
    """The most likely d0, with s0^2 by expectation and maximisation, and each row's probability of being stable."""
    wild, priors = _wild(len(variances)), np.array(may_be)[:, None]
    scale = np.full_like(priors, np.median(variances / (stats.chi2.median(degrees) / degrees)))
    for _ in range(ROUNDS):
        calm = np.log1p(-wild) + _log_density(variances, degrees, priors, scale)
        wilder = np.log(wild) + _log_density(variances, degrees, WILD_DEGREES, WILDER * scale)
        both = np.logaddexp(calm, wilder)
        stable = np.exp(calm - both)
        share = stable * degrees * (priors + degrees) / (priors + degrees * variances / scale)
        scale = (share @ variances / (stable @ degrees))[:, None]
    best = int(np.argmax(both.sum(axis=1)))
    return may_be[best], float(scale[best, 0]), stable[best]


def _log_density(
    variances: np.ndarray, degrees: np.ndarray, prior_degrees: float | np.ndarray, scale: float | np.ndarray
) -> np.ndarray:
    """Of variances that are `scale` times F(degrees, prior_degrees)."""
    ratio = degrees / prior_degrees
    value = variances / scale
    shape = np.log(ratio) * degrees / 2 + (degrees / 2 - 1) * np.log(value)
    shape -= (degrees + prior_degrees) / 2 * np.log1p(ratio * value)
    return np.asarray(shape - special.betaln(degrees / 2, prior_degrees / 2) - np.log(scale))


# ---- seeds that rows share -------------------------------------------------------------------------------------------

LEAST_DEGREES = 0.25
"""Of each row; a row that shares fewer than two seeds with others has none."""
LEAST_WEIGHT = 0.02
LEAST_RATIO = 2.0
"""Of the mean squares of seeds and residuals, from which rows are paired."""
PASSES = 2


@dataclass(frozen=True)
class PairedSpread:
    """What is left of the spread when each seed's own part is taken out."""

    spread: Spread
    """Of the residuals."""
    common_variance: float
    """Of what the runs of a seed share."""
    common_degrees: float
    residuals: Sequence[np.ndarray]
    """Of each row, by run."""

    @property
    def is_evident(self) -> bool:
        """Whether seeds differ more than the residuals explain; if not, leaving them in costs nothing but is surer."""
        ratio = self.common_variance / self.spread.prior_variance
        return ratio * len(self.residuals) > LEAST_RATIO - 1

    @property
    def correlation(self) -> float:
        """Of the runs of two stable rows with the same seed."""
        return self.common_variance / (self.common_variance + self.spread.prior_variance)


def learn_paired_spread(
    means: Sequence[np.ndarray], seeds: Sequence[Sequence[int]], floor: float
) -> PairedSpread | None:
    """The spread of rows that each share seeds with others; None if one does not."""
    row_of = np.repeat(np.arange(len(means)), [len(by_seed) for by_seed in means])
    distinct, seed_of = np.unique(np.concatenate([np.asarray(of_row) for of_row in seeds]), return_inverse=True)
    design = np.concatenate([np.eye(len(means))[row_of], np.eye(len(distinct))[seed_of]], axis=1)
    runs, ends = np.concatenate(means), np.cumsum([len(by_seed) for by_seed in means])[:-1]
    weights = np.ones(len(means))
    for _ in range(PASSES):
        weighted = design.T * weights[row_of]
        left = np.eye(len(runs)) - design @ np.linalg.pinv(weighted @ design, hermitian=True) @ weighted
        degrees = np.array([of_row.sum() for of_row in np.split(np.square(left).sum(axis=1), ends)])
        if degrees.min() < LEAST_DEGREES:
            return None
        residuals = np.split(left @ runs, ends)
        spread = _learn(residuals, degrees, floor)
        weights = spread.weights[:, 0] + LEAST_WEIGHT
    common = max(0.0, learn_spread(means, floor).prior_variance - spread.prior_variance)
    return PairedSpread(spread, common, len(distinct) - 1.0, residuals)


# ---- two modes -------------------------------------------------------------------------------------------------------

RARE = 2e-4
"""The probability with which two stable runs have a gap between them that counts as one between modes."""
MODES_SHOWN_FROM = 10
"""Seeds from which a row with two modes shows them about as often as verdicts promise."""


def has_two_modes(runs: Sequence[float] | np.ndarray, deviation: float, degrees: float) -> bool:
    """Whether sorted runs have a gap that stable ones would have with a probability of RARE, as where some collapse.

    `deviation` is the standard deviation of stable runs, known with `degrees` degrees of freedom: the gap is five
    deviations, and more where few rows say how large one is (Student's t). No statistic finds a mode without a
    run: if every third run of a method collapses, three seeds show no collapse with a probability of 30 %. From
    MODES_SHOWN_FROM seeds on, 1 to 5 % of simulated leaderboards err that have a row with a third of its runs or more
    in either mode (benchmarks/coverage).
    """
    gaps = np.diff(np.sort(np.asarray(runs, dtype=np.float64)))
    reach = np.sqrt(2) * stats.t.isf(RARE, degrees) * deviation
    return bool(len(gaps) and gaps.max() > reach)


# ---- seeds that are no seeds -----------------------------------------------------------------------------------------

BEYOND_SAMPLING = 1.645
"""The z-score below which runs are not known to differ by more than their samples: one side of 5 %."""


def beyond_sampling(rows: Sequence[np.ndarray]) -> float | None:
    """How surely the runs of rows differ by more than their samples explain: a z-score over problems.

    `rows` are [seeds, problems, samples] scores, of the same problems. Runs that were trained apart differ problem by
    problem; evaluations of one trained model do not. None where that cannot be told: no row has two seeds and two
    samples, or nothing varies.
    """
    excess = [
        scores.mean(axis=2).var(axis=0, ddof=1) - scores.var(axis=2, ddof=1).mean(axis=0) / scores.shape[2]
        for scores in rows
        if min(scores.shape[0], scores.shape[2]) > 1
    ]
    by_problem = np.sum(excess, axis=0) if excess else np.zeros(1)
    deviation = by_problem.std(ddof=1) if len(by_problem) > 1 else 0.0
    return float(by_problem.mean() / deviation * np.sqrt(len(by_problem))) if deviation > 0 else None
