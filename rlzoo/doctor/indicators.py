"""What each detector looks at: a number for each step of a table of metrics, NaN where it cannot say.

A table has one array [steps] for each metric, NaN where a step has no such number. Indicators are over `PATIENCE` steps
in a row, so that one odd step is no finding.
"""

from collections.abc import Callable, Mapping
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
    """The level that `values` held over the last `steps` steps, for each step; NaN where a value is unknown.

    The level is the smallest of these values, or the largest if `below`.
    """
    worst = np.full(len(values), np.nan)
    if len(values) >= steps:
        windows = np.lib.stride_tricks.sliding_window_view(values, steps)
        worst[steps - 1 :] = windows.max(1) if below else windows.min(1)
    return worst


def held_as_long(values: Array, steps: Array) -> Array:
    """Like `held`, with its own window length for each step."""
    levels = np.full(len(values), np.nan)
    for count in np.unique(steps[np.isfinite(steps)]):
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


# ---- indicators ------------------------------------------------------------------------------------------------------

PATIENCE = 3
"""Steps in a row that have to show a failure mode."""
SOLVED = 0.98
"""The share of right responses from which nothing is left to learn."""
LEAST_ENTROPY = 0.1
"""Nats per token below which a policy was sure from the start, so that nothing is left to collapse."""
LEAST_GAIN = 0.05
"""The share of the errors at the start that has to be gone before longer responses count as better ones."""
ENOUGH_GROUPS = 20
"""Groups that have to show a failure mode: three of one prompt each are alike by chance."""
FALL_WINDOWS = (PATIENCE, 12, 48, 192)
"""Steps over which the reward is averaged: over few a sudden fall shows soon, over many one that noise would hide."""
FEWEST_STEPS = 100
"""Steps without which no trend can be told from noise: a healthy run may learn as slowly as that."""
MOVING = ("reward", "entropy")
"""Of these one at least moves while a policy learns; length and gradient do so by chance more often."""


def right(table: Table) -> Array:
    """[steps] share of right responses: the accuracy, or the reward if all of it lies between 0 and 1."""
    accuracy, reward = column(table, "accuracy"), column(table, "reward")
    if np.isfinite(accuracy).any():
        return accuracy
    known = reward[np.isfinite(reward)]
    is_share = len(known) > 0 and known.min() >= 0 and known.max() <= 1
    return reward if is_share else accuracy


def is_solved(table: Table) -> Flags:
    """[steps] bool: nearly all responses are right."""
    return np.nan_to_num(right(table)) >= SOLVED


def has_signal(table: Table) -> Flags:
    """[steps] bool: some group teaches something, and the gradient is a number; true where nothing says otherwise."""
    without = np.nan_to_num(column(table, "groups_without_signal"))
    return (without < 1) & ~(np.nan_to_num(column(table, "updates_skipped")) > 0)


def errors_left(table: Table) -> Array:
    """Wrong responses, relative to the start: 1 where there are as many or more, or where none are counted."""
    wrong = rolling_mean(1 - right(table), PATIENCE, partial=True)
    start = 1 - at_start(right(table))
    return np.nan_to_num(np.clip(wrong / (start if start > 0 else np.nan), 0, 1), nan=1.0)


def relative_entropy(table: Table) -> Array:
    """Entropy of a response, relative to the start; unknown where a token's was next to nothing.

    A response's entropy is the sum of its tokens': longer responses have more to decide, each token of them less. That
    shorter ones have less to decide is no collapse.
    """
    entropy, length = column(table, "entropy"), column(table, "length")
    start = at_start(entropy)
    longer = np.fmax(length / max(at_start(length), 1.0), 1.0)  # 1 where no length is logged
    return longer * entropy / (start if start >= LEAST_ENTROPY else np.nan)


def fallen_entropy(table: Table) -> Array:
    """Relative entropy over the share of errors that is left; NaN above 98 % accuracy: low entropy is expected."""
    ratio = relative_entropy(table) / np.maximum(errors_left(table), 1 - SOLVED)
    return held(np.where(is_solved(table), np.nan, ratio), PATIENCE, below=True)


def risen_entropy(table: Table) -> Array:
    """Nats per token above the start: of a policy that was nearly sure, a multiple would say little."""
    entropy = column(table, "entropy")
    return held(entropy - at_start(entropy), PATIENCE)


def steady(name: str) -> Callable[[Table], Array]:
    """The indicator that is the level of a column, kept for `PATIENCE` steps."""
    return lambda table: held(column(table, name), PATIENCE)


def risen_length(table: Table) -> Array:
    """Length over that of the start; unknown where fewer responses are wrong than at the start, so that length pays."""
    length = column(table, "length")
    pays = errors_left(table) <= 1 - LEAST_GAIN
    return held(np.where(pays, np.nan, length / max(at_start(length), 1.0)), PATIENCE)


def group_patience(table: Table) -> Array:
    """[steps] steps in a row that have enough groups, at least `PATIENCE`.

    Where their number is not logged, the finest share so far tells the fewest that there can be: a half needs two.
    """
    share, groups = column(table, "groups_without_signal"), column(table, "groups")
    part = np.minimum(share, 1 - share)
    finest = np.fmin.accumulate(np.where(part > 0, part, 1.0))
    known = np.where(groups > 0, groups, np.round(1 / finest))
    return np.maximum(PATIENCE, np.ceil(ENOUGH_GROUPS / known))


def dead_groups(table: Table) -> Array:
    """Share of the groups; those of problems that are all solved are counted elsewhere."""
    share = np.where(is_solved(table), np.nan, column(table, "groups_without_signal"))
    return held_as_long(share, group_patience(table))


def solved_groups(table: Table) -> Array:
    """Share of the groups without a signal where nearly all responses are right, 0 elsewhere."""
    share = np.where(is_solved(table), column(table, "groups_without_signal"), 0.0)
    return held_as_long(np.where(np.isfinite(right(table)), share, np.nan), group_patience(table))


def fallen_reward(table: Table) -> Array:
    """By how much the mean of some steps lies below the best such mean so far, in deviations of the rewards.

    Of the deviations the largest so far counts: where nearly all rewards are the same, a small drop would be many.
    """
    reward = column(table, "reward")
    deviation = np.fmax.accumulate(column(table, "reward_deviation"))
    drop = np.fmax.reduce([_sure_drop(reward, window) for window in FALL_WINDOWS])
    return np.where(deviation == 0, 0.0, drop / deviation)


def _sure_drop(reward: Array, window: int) -> Array:
    """The drop of the mean of `window` steps from its best, 0 where it is within what noise alone would make of it.

    The best and the worst of n independent means each lie about sqrt(2 log n) standard errors from their centre.
    The noise is known with a relative error of about 1 / sqrt(n); twice that error is allowed for.
    """
    means = rolling_mean(reward, window, partial=window == PATIENCE)
    best, steps = np.fmax.accumulate(means), np.arange(1, len(reward) + 1)
    averaged = np.minimum(np.maximum.accumulate(np.where(means == best, steps, 1)), window)
    errors = noise_until(reward) * (window**-0.5 + averaged**-0.5) * (1 + 2 * steps**-0.5)
    drop, apart = best - means, np.sqrt(2 * np.log(np.maximum(steps, 2))) * errors
    drop[(steps < 2 * window) & (window > PATIENCE)] = np.nan
    return np.where(drop <= apart, 0.0, drop)


def skipped_updates(table: Table) -> Array:
    """Share of the last five steps that left out an update."""
    skipped = column(table, "updates_skipped")
    return rolling_mean(np.where(np.isnan(skipped), np.nan, skipped > 0), 5)


def vanishing_gradient(table: Table) -> Array:
    """The gradient's norm where there is a signal."""
    return held(np.where(has_signal(table), column(table, "gradient_norm"), np.nan), PATIENCE, below=True)


def grading_lost(table: Table) -> Array:
    """Share of the responses, mean of some steps."""
    return rolling_mean(column(table, "grading_lost"), PATIENCE)


def risen_repetition(table: Table) -> Array:
    """Share of the responses' text, less that of the start: some answers are repetitive by nature."""
    repetition = column(table, "repetition")
    return held(repetition - at_start(repetition), PATIENCE)


def surest_trend(table: Table) -> Array:
    """At the last step: the largest F-statistic of a trend, over all steps, of what moves while a policy learns.

    Unknown where nothing could be learnt: there the rate is not to blame.
    """
    surest = np.full(steps_in(table), np.nan)
    learning = has_signal(table) & (np.nan_to_num(column(table, "gradient_norm"), nan=1.0) > 0)
    trends = [trend(column(table, name)) for name in MOVING]
    known = [statistic for statistic in trends if not np.isnan(statistic)]
    if len(surest) >= FEWEST_STEPS and learning.mean() > 0.5 and known:
        surest[-1] = max(known)
    return surest
