"""Faster or higher? Accuracy over compute as a sigmoid, with intervals over seeds.

ScaleRL (Khatri et al. 2025, arXiv:2510.13786) fits R_C - R_0 = (A - R_0) / (1 + (C_mid / C)^B): A is how high a method
gets under this schedule (a rate that falls to 0 flattens every curve at its last step), C_mid the compute at which half
of that is reached, B how steeply. One curve is fitted to all seeds of a row by least squares. What each seed by itself
would make of A and log C_mid is one Gauss-Newton step from there, and their mean has Student's t interval, so that
neither a seed's own curve nor noise that is correlated along it is taken for knowledge. How far seeds lie apart is
learnt from all rows, as for verdicts (`spread`).

A fit whose curve, seeds and points do not determine it is refused, with the reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special, stats

from rlzoo.statistics.intervals import LEVEL, Estimate
from rlzoo.statistics.paired import mean_by_seed
from rlzoo.statistics.spread import learn_spread

LEAST_SEEDS = 3
LEAST_POINTS = 6
"""Of each seed, the untrained model among them."""
LEAST_REACHED = 0.75
"""The share of the rise from R_0 to A that training has to have made."""
WIDEST = 0.5
"""Half the interval of A, in rises."""
MISFIT = 0.001
"""The p-value below which the mean of the seeds does not follow a sigmoid."""
STEEPNESS = (0.2, 12.0)
"""What B may be. An end of it is no estimate."""
FARTHEST = 5.0
"""How far log C_mid may be from that of all compute spent."""
PRIOR_DEGREES = (2.0, 4.0)
"""What the rows' variances may be worth to each other: rows that are less far on their curves lie further apart."""
FLOOR = 1e-18
"""Of the variance over seeds, so that equal seeds have an interval."""


@dataclass(frozen=True)
class Sigmoid:
    """Accuracy over compute, both in any unit."""

    start: float
    """R_0."""
    asymptote: float
    """A."""
    efficiency: float
    """B."""
    midpoint: float
    """C_mid, in units of compute."""

    def at(self, compute: np.ndarray) -> np.ndarray:
        """Accuracy after each compute, which is 0 or more."""
        return self.start + (self.asymptote - self.start) * self.share(compute)

    def share(self, compute: np.ndarray) -> np.ndarray:
        """Of the rise, how much is made."""
        with np.errstate(divide="ignore"):
            return np.asarray(special.expit(self.efficiency * (np.log(compute) - np.log(self.midpoint))))


@dataclass(frozen=True)
class Curves:
    """The learning curves of one row, a line for each seed."""

    compute: np.ndarray
    """[seeds, points] spent so far, rising; 0 for the untrained model, which is the first point."""
    accuracy: np.ndarray
    """[seeds, points]."""


@dataclass(frozen=True)
class SigmoidFit:
    """The sigmoid of a row, with 95 % intervals over seeds."""

    curve: Sigmoid
    asymptote: Estimate
    midpoint: Estimate


@dataclass(frozen=True)
class Refused:
    """A row whose data determine no sigmoid."""

    reason: str


@dataclass(frozen=True)
class _Fitted:
    """A curve, and what each seed by itself would make of it."""

    curve: Sigmoid
    by_seed: np.ndarray
    """[seeds, 2] A and log C_mid."""


def fit_rows(rows: Sequence[Curves]) -> list[SigmoidFit | Refused]:
    """The sigmoid of every row. Rows need not have the same seeds or points."""
    fitted = [_fitted(row) for row in rows]
    known = [fitting for fitting in fitted if isinstance(fitting, _Fitted)]
    asymptotes, midpoints = (over_seeds([fitting.by_seed[:, which] for fitting in known]) for which in (0, 1))
    fits = iter([_fit(fitting.curve, *both) for fitting, *both in zip(known, asymptotes, midpoints, strict=True)])
    judged = [next(fits) if isinstance(outcome, _Fitted) else outcome for outcome in fitted]
    return [
        _if_determined(outcome, row) if isinstance(outcome, SigmoidFit) else outcome
        for outcome, row in zip(judged, rows, strict=True)
    ]


def accuracies_at(rows: Sequence[Curves], compute: float) -> list[Estimate | None]:
    """Of each row, the accuracy when so much was spent: of each seed, a straight line through the tenth of its points
    that is nearest, two at least. None for a row of one seed.
    """
    by_seed = [
        np.array([_near(*seed, compute) for seed in zip(row.compute, row.accuracy, strict=True)]) for row in rows
    ]
    estimates = iter(over_seeds([values for values in by_seed if len(values) > 1]))
    return [next(estimates) if len(values) > 1 else None for values in by_seed]


def _near(spent: np.ndarray, accuracy: np.ndarray, compute: float) -> float:
    nearest = np.argsort(np.abs(spent - compute), kind="stable")[: max(2, len(spent) // 10)]
    if np.ptp(spent[nearest]) == 0:
        return float(accuracy[nearest].mean())
    return float(np.polynomial.Polynomial.fit(spent[nearest], accuracy[nearest], 1)(compute))


def over_seeds(values: Sequence[np.ndarray]) -> list[Estimate]:
    """The mean of each row's [seeds] values, two or more, with its interval; the spread is learnt from all rows."""
    if len(values) < 2:
        return [mean_by_seed(by_seed) for by_seed in values]
    spread = learn_spread(values, FLOOR, PRIOR_DEGREES)
    mixtures = zip(values, spread.weights, spread.variances, spread.degrees, strict=True)
    return [
        _interval(by_seed, weights, np.sqrt(variance / len(by_seed)), degrees)
        for by_seed, weights, variance, degrees in mixtures
    ]


def _interval(values: np.ndarray, weights: np.ndarray, errors: np.ndarray, degrees: np.ndarray) -> Estimate:
    """Of a mean whose deviation is a mixture of Student's t."""
    outside = (1 - LEVEL) / 2
    farthest = float(np.max(errors * stats.t.isf(outside / 10, degrees)))
    reach = optimize.brentq(
        lambda x: weights @ special.stdtr(degrees, -x / errors) - outside, 0.0, farthest, xtol=1e-14
    )
    mean = float(values.mean())
    return Estimate(mean, mean - reach, mean + reach)


# ---- least squares ---------------------------------------------------------------------------------------------------


def _fitted(row: Curves) -> _Fitted | Refused:
    seeds, points = row.accuracy.shape
    if seeds < LEAST_SEEDS:
        return Refused(f"{seeds} seed{'s' * (seeds > 1)}; a fit needs {LEAST_SEEDS}")
    if points < LEAST_POINTS:
        return Refused(f"{points} points of each seed; a fit needs {LEAST_POINTS}, the untrained model among them")
    if not (np.all(np.isfinite(row.accuracy)) and np.all(np.diff(row.compute) > 0)):
        return Refused("compute does not rise from point to point")
    curve = least_squares(row)
    residuals = row.accuracy - curve.at(row.compute)
    slopes = np.stack([_slopes(curve, compute) for compute in row.compute])
    steps = np.einsum("spi,sp->si", slopes, residuals)
    information = np.einsum("spi,spj->ij", slopes, slopes) / seeds
    by_seed = steps @ np.linalg.pinv(information, hermitian=True)
    reason = _no_sigmoid(curve, row, residuals, by_seed)
    if reason:
        return Refused(reason)
    return _Fitted(curve, by_seed[:, :2] + [curve.asymptote, np.log(curve.midpoint)])


def least_squares(row: Curves) -> Sigmoid:
    """The sigmoid with the smallest sum of squares over all seeds and points."""
    compute, accuracy = row.compute.ravel(), row.accuracy.ravel()
    unit = float(compute.max())

    def residuals(parameters: np.ndarray) -> np.ndarray:
        return _sigmoid(parameters, unit).at(compute) - accuracy

    def slopes(parameters: np.ndarray) -> np.ndarray:
        return _slopes(_sigmoid(parameters, unit), compute)

    start = _start(compute / unit, accuracy)
    best = optimize.least_squares(residuals, start, slopes, method="lm", ftol=1e-12, xtol=1e-12, gtol=1e-12)
    return _sigmoid(best.x, unit)


def _sigmoid(parameters: np.ndarray, unit: float) -> Sigmoid:
    """Of A, log C_mid in units, log B and R_0; within limits beyond which no curve is told from its neighbours."""
    asymptote, midpoint, efficiency, start = parameters
    midpoint, efficiency = np.clip(midpoint, -FARTHEST, FARTHEST), np.clip(efficiency, *np.log(STEEPNESS))
    return Sigmoid(float(start), float(asymptote), float(np.exp(efficiency)), float(unit * np.exp(midpoint)))


def _slopes(curve: Sigmoid, compute: np.ndarray) -> np.ndarray:
    """[points, 4] derivatives by A, log C_mid, log B and R_0."""
    share = curve.share(compute)
    middle = (curve.asymptote - curve.start) * curve.efficiency * share * (1 - share)
    beyond = np.log(np.where(compute > 0, compute / curve.midpoint, 1.0))
    return np.stack([share, -middle, middle * beyond, 1 - share], axis=-1)


def _start(compute: np.ndarray, accuracy: np.ndarray) -> np.ndarray:
    """The best of a grid of midpoints and efficiencies, for each of which A - R_0 and R_0 are linear."""
    midpoint, efficiency = (each.ravel() for each in np.meshgrid(np.geomspace(0.02, 1.3, 8), (0.7, 1.2, 2.0, 3.5)))
    with np.errstate(divide="ignore"):
        share = special.expit(efficiency[:, None] * (np.log(compute) - np.log(midpoint)[:, None]))
    centred = share - share.mean(axis=1, keepdims=True)
    rise = centred @ accuracy / np.square(centred).sum(axis=1)
    best = int(np.argmax(rise * (centred @ accuracy)))
    start = accuracy.mean() - rise[best] * share[best].mean()
    return np.array([start + rise[best], np.log(midpoint[best]), np.log(efficiency[best]), start])


# ---- what is refused -------------------------------------------------------------------------------------------------


def _no_sigmoid(curve: Sigmoid, row: Curves, residuals: np.ndarray, by_seed: np.ndarray) -> str:
    """Why the data have none; empty if they may have one. `by_seed` are steps [seeds, 4] from the curve."""
    ends = _slopes(curve, row.compute[:, -1].mean()[None])[0] - [0, 0, 0, 1]
    rises = by_seed @ ends + float(np.diff(curve.at(np.array([0.0, row.compute[:, -1].mean()])))[0])
    if _t_below_zero(rises) > 0.025:
        return "no rise beyond what seeds differ by"
    if _misfit(residuals) < MISFIT:
        return "it follows no sigmoid: it rises and falls, or rises twice"
    reached = float(curve.share(row.compute[:, -1].mean()))
    if reached < LEAST_REACHED:
        return (
            f"training made {100 * reached:.0f} % of the curve's rise; A is known from {100 * LEAST_REACHED:.0f} % on"
        )
    if min(curve.efficiency / STEEPNESS[0], STEEPNESS[1] / curve.efficiency) < 1.01:
        return "too few points where it rises: how steeply is not determined"
    return ""


def _t_below_zero(values: np.ndarray) -> float:
    """The probability that the mean over seeds is below 0."""
    error = np.sqrt(values.var(ddof=1) / len(values) + FLOOR)
    return float(stats.t.sf(values.mean() / error, len(values) - 1))


def _misfit(residuals: np.ndarray) -> float:
    """The p-value that the mean of the seeds lies off the curve by no more than seeds do off their mean."""
    seeds, points = residuals.shape
    mean = residuals.mean(axis=0)
    between = np.square(residuals - mean).sum() / ((seeds - 1) * points)
    off = seeds * np.square(mean).sum() / (points - 4)
    return float(stats.f.sf(off / (between + FLOOR), points - 4, (seeds - 1) * points)) if off > FLOOR else 1.0


def _fit(curve: Sigmoid, asymptote: Estimate, midpoint: Estimate) -> SigmoidFit:
    in_units = Estimate(*(float(np.exp(value)) for value in (midpoint.mean, midpoint.low, midpoint.high)))
    return SigmoidFit(curve, asymptote, in_units)


def _if_determined(fit: SigmoidFit, row: Curves) -> SigmoidFit | Refused:
    """The fit, if its intervals lie within what was seen."""
    first, last = float(row.compute[:, 1].mean()), float(row.compute[:, -1].mean())
    if fit.midpoint.high > last:
        return Refused("the midpoint may lie beyond what was trained")
    if fit.midpoint.low < first:
        return Refused("the midpoint may lie before the first point after the start")
    if fit.asymptote.half_width > WIDEST * (fit.curve.asymptote - fit.curve.start):
        return Refused(f"A is known to {100 * fit.asymptote.half_width:.0f} points only")
    return fit
