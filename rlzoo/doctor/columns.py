"""The table that detectors read: one array [steps] for each metric, NaN where a step has no such number."""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Table: TypeAlias = Mapping[str, Array]

COLUMNS: Mapping[str, str] = {
    "step": "number of the step",
    "loss": "mean loss of the updates",
    "reward": "mean reward of the responses",
    "reward_deviation": "standard deviation of the rewards",
    "accuracy": "share of right responses, from 0 to 1",
    "entropy": "mean entropy of a token, in nats",
    "length": "mean length of a response, in tokens",
    "truncated": "share of responses that were stopped by length",
    "groups": "number of groups",
    "groups_without_signal": "share of groups whose advantages are all 0, as where all responses earned the same",
    "gradient_norm": "norm of the gradient before it is clipped, mean over the updates",
    "clipped": "share of the tokens whose gradient the clip took",
    "sampler_difference": "absolute difference of a token's log-prob between sampler and trainer, mean, in nats",
    "sampler_kl": "estimate k3 of the divergence of the trainer from the sampler, mean per token, in nats",
    "sampler_probability_difference": "absolute difference of a token's probability between both, mean",
    "old_of_sampler": "1 where the ratio is to the log-probs that the sampler reported, 0 where it is to the trainer's",
    "staleness": "updates since the policy that sampled a token, mean per token",
    "updates_skipped": "updates that were left out because their gradient was not finite",
    "grading_lost": "share of responses whose grading timed out or failed",
    "repetition": "share of a response's text that is a unit repeated at its end, mean",
    "learning_rate": "of the optimiser",
}
"""Name -> what it is."""


def column(table: Table, name: str) -> Array:
    """A column [steps], all NaN if the table has none."""
    return table[name] if name in table else np.full(steps_in(table), np.nan)


def steps_in(table: Table) -> int:
    """How many steps a table has."""
    return len(next(iter(table.values()), np.zeros(0)))


def held(values: Array, steps: int, below: bool = False) -> Array:
    """The level that `values` [steps] kept for so many steps in a row, up to each step; NaN where one is unknown.

    That is the smallest of them, or the largest if `below`.
    """
    worst = np.full(len(values), np.nan)
    if len(values) >= steps:
        windows = np.lib.stride_tricks.sliding_window_view(values, steps)
        worst[steps - 1 :] = windows.max(1) if below else windows.min(1)
    return worst


def held_as_long(values: Array, steps: Array) -> Array:
    """The same over as many steps [steps] in a row as stand at each step."""
    levels = np.full(len(values), np.nan)
    for count in np.unique(steps):
        levels = np.where(steps == count, held(values, int(count)), levels)
    return levels


def noise_until(values: Array) -> Array:
    """[steps] standard deviation of a step's noise, from how much the steps so far differ from those before them.

    Of normal noise the absolute difference has a mean of 2 / sqrt(pi) deviations. NaN before there is one.
    """
    change = np.abs(np.diff(values, prepend=np.nan))
    count = np.cumsum(np.isfinite(change))
    return np.where(count > 0, np.cumsum(np.nan_to_num(change)) / np.maximum(count, 1), np.nan) * np.sqrt(np.pi) / 2


def rolling_mean(values: Array, steps: int, partial: bool = False) -> Array:
    """The mean of the last `steps` values [steps] up to each step; NaN where one is unknown.

    The first ones have fewer behind them: they are NaN as well, or, if `partial`, the mean of those that there are.
    """
    first = np.array([values[: end + 1].mean() if partial else np.nan for end in range(min(steps - 1, len(values)))])
    if len(values) < steps:
        return first
    return np.concatenate([first, np.lib.stride_tricks.sliding_window_view(values, steps).mean(1)])


def at_start(values: Array, steps: int = 3) -> float:
    """The median of the first values that are known; NaN if none is."""
    known = values[np.isfinite(values)][:steps]
    return float(np.median(known)) if len(known) else np.nan


def trend(values: Array) -> float:
    """How surely `values` [steps] move: the F-statistic of a parabola against a constant, over those that are known.

    NaN for fewer than eight. A parabola that fits exactly has an infinite one, a constant 0.
    """
    known = np.isfinite(values)
    x, y = np.flatnonzero(known).astype(np.float64), values[known]
    if len(y) < 8:
        return np.nan
    y = y - y.mean()
    if not y.any():
        return 0.0
    y, x = y / np.abs(y).max(), 2 * (x - x[0]) / (x[-1] - x[0]) - 1
    curve = np.vander(x, 3)
    left = y - curve @ np.linalg.lstsq(curve, y)[0]
    explained, unexplained = (y @ y - left @ left) / 2, (left @ left) / (len(y) - 3)
    return float(explained / unexplained) if unexplained > 1e-24 else np.inf
