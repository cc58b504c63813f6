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
    "groups_without_signal": "share of groups whose responses all earned the same",
    "gradient_norm": "norm of the gradient before it is clipped, mean over the updates",
    "clipped": "share of the tokens whose gradient the clip took",
    "sampler_difference": "absolute difference of a token's log-prob between sampler and trainer, mean, in nats",
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


def rolling_mean(values: Array, steps: int) -> Array:
    """The mean of the last `steps` values [steps] up to each step; NaN where one is unknown."""
    means = np.full(len(values), np.nan)
    if len(values) >= steps:
        means[steps - 1 :] = np.lib.stride_tricks.sliding_window_view(values, steps).mean(1)
    return means


def at_start(values: Array, steps: int = 3) -> float:
    """The median of the first values that are known; NaN if none is."""
    known = values[np.isfinite(values)][:steps]
    return float(np.median(known)) if len(known) else np.nan


def trend(values: Array) -> float:
    """How surely `values` [steps] rise or fall: the t-statistic of a straight line through those that are known.

    NaN for fewer than five. A line that fits exactly has an infinite one, a constant 0.
    """
    known = np.isfinite(values)
    x, y = np.flatnonzero(known).astype(np.float64), values[known]
    if len(y) < 5:
        return np.nan
    x, y = x - x.mean(), y - y.mean()
    slope = (x @ y) / (x @ x)
    if slope == 0:
        return 0.0
    left = y - slope * x
    error = np.sqrt((left @ left) / (len(y) - 2) / (x @ x))
    return float(np.divide(abs(slope), error)) if error > 0 else np.inf
