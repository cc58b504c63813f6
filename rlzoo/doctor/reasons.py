"""Why a finding shows, as far as the other numbers of its step tell."""

import numpy as np

from rlzoo.doctor.columns import Table, column
from rlzoo.doctor.signals import right

EMPTY = 1.5
"""Tokens at most of a response that says nothing: its end alone, and sometimes one more."""


def nothing_more(table: Table, step: int) -> str:
    """Of a finding that says all by itself."""
    return ""


def why_no_signal(table: Table, row: int) -> str:
    """What the responses of each group have in common at a row of the table, and whether training has made it so."""
    return _alike(table, row) + _broken(table, row)


def _broken(table: Table, row: int) -> str:
    """Of a model that had a signal in its first step and has earned less ever since it has none."""
    reward = column(table, "reward")
    had_signal = _at(table, "groups_without_signal", 0) < 1 and not _at(table, "updates_skipped", 0) > 0
    lost = np.flatnonzero(column(table, "groups_without_signal")[: row + 1] < 1)
    if not had_signal or not (reward[lost[-1] + 1 : row + 1] < reward[0]).all():
        return ""
    rate = _at(table, "learning_rate", row)
    value = f"={rate:.3g}" if np.isfinite(rate) else ""
    return (
        f"; training has broken the model, which earned {reward[0]:.3g} in step {_at(table, 'step', 0):g} and "
        f"{reward[row]:.3g} in step {_at(table, 'step', row):g}: lower train.learning_rate{value}, the likely cause"
    )


def _alike(table: Table, row: int) -> str:
    length, share = _at(table, "length", row), float(right(table)[row])
    loss = _at(table, "loss", row)
    so = " (so the loss is 0)" if loss == 0 else ""
    if length <= EMPTY:
        return f"the responses are empty: {length:.3g} tokens on average{so}"
    if _at(table, "truncated", row) >= 0.9:
        return f"nearly all responses are truncated, and earn the same{so}"
    if not np.isfinite(share):
        return f"all rewards of a group are equal{_mean_reward(table, row)}{so}"
    if share <= 0.02:
        return f"all wrong: {share:.0%} right{so}"
    return f"all rewards of a group are equal, though {share:.0%} are right{so}" if share < 0.98 else f"all right{so}"


def _mean_reward(table: Table, row: int) -> str:
    """Which they are, if rewards are logged: those that do not lie between 0 and 1 are no share of right ones."""
    reward = _at(table, "reward", row)
    return f": {reward:.3g} on average" if np.isfinite(reward) else ""


def why_silent(table: Table, row: int) -> str:
    """Who took the gradient."""
    share = _at(table, "clipped", row)
    if share > 0.5:
        return f"the clip takes {share:.0%} of the tokens"
    seen = f"the clip takes only {share:.0%}: " if np.isfinite(share) else ""
    return f"{seen}a mask silences the tokens, or a divisor makes the advantages tiny (a large eps)"


def why_idle(table: Table, row: int) -> str:
    """The rate."""
    rate = _at(table, "learning_rate", row)
    return f"the learning rate is {rate:.3g}" if np.isfinite(rate) else ""


def why_truncated(table: Table, row: int) -> str:
    """How long responses are."""
    length = _at(table, "length", row)
    return f"responses have {length:.4g} tokens on average" if np.isfinite(length) else ""


def why_stale(table: Table, row: int) -> str:
    """How old the policy of the tokens is."""
    behind = _at(table, "staleness", row)
    return f"the policy of a token is {behind:.3g} updates old on average before the step" if behind > 0 else ""


def why_fallen(table: Table, row: int) -> str:
    """What the reward was at its best, and what it is."""
    reward = column(table, "reward")
    best = int(np.nanargmax(reward[: row + 1]))
    return f"from {reward[best]:.3g} to {reward[row]:.3g}"


def why_mismatch(table: Table, row: int) -> str:
    """What becomes of the difference, where that is known."""
    if _at(table, "old_of_sampler", row) != 1:
        return ""
    return "the ratio is to the sampler, and takes this for a change of the policy; not so with rollout.old_logp=policy"


def _at(table: Table, name: str, row: int) -> float:
    return float(column(table, name)[row])
