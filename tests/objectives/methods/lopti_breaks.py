"""Mistakes that one could make in Lopti."""

from collections.abc import Callable, Iterator
from typing import Any

from objectives import TokenBatch
from tests.objectives.breaks import Break, Wrong, anchored_to_itself, instead, old_for_current, result


def passes_with(change: Callable[[TokenBatch, TokenBatch], TokenBatch]) -> Wrong:
    """The passes, each changed by a function of its batch and of the whole one."""
    return result(lambda passes, batch: [change(part, batch) for part in passes])


def boundary_is_low(self: Any, batch: TokenBatch) -> Iterator[TokenBatch]:
    low = batch.mask & (batch.logp_old.exp() <= self.eta)
    return [batch.with_fields(policy_mask=group, penalty_mask=group) for group in (low, batch.mask & ~low)]


BREAKS = [
    Break("sign", "high tokens first", "lopti", "passes", result(lambda passes, batch: passes[::-1])),
    Break("strictness", "boundary in the low group", "lopti", "passes", instead(boundary_is_low)),
    Break(
        "denominator",
        "divides by the pass's tokens",
        "lopti",
        "passes",
        passes_with(lambda part, batch: part.with_fields(mask=part.policy_mask)),
    ),
    Break(
        "scope",
        "both passes regularise all tokens",
        "lopti",
        "passes",
        passes_with(lambda part, batch: part.with_fields(penalty_mask=batch.mask)),
    ),
    Break(
        "scope",
        "split by the current policy",
        "lopti",
        "passes",
        lambda passes: (
            lambda self, batch: [
                part.with_fields(logp_old=batch.logp_old) for part in passes(self, *old_for_current(batch))
            ]
        ),
    ),
    Break(
        "detach",
        "old log-probs taken anew for a pass",
        "token_ratio",
        "ratio",
        anchored_to_itself(lambda rows: rows.policy_mask is not None),
    ),
]
