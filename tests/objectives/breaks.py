"""How a method is broken: an attribute of a part, and what stands in for it.

Written against the kinds of parts alone, so that renaming and reformatting the package leaves the breaks as they are.
They are in the files `<recipe>_breaks.py` in `methods`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from objectives import Bounds, TokenBatch

Wrong = Callable[[Any], Any]
"""What an attribute of a part is -> what stands in for it."""


class Break(NamedTuple):
    """An attribute of a part, and what stands in for it."""

    kind: str
    what: str
    part: str
    attribute: str
    wrong: Wrong


def always(value: object) -> Wrong:
    """A setting or flag that has this value, whatever it is given."""
    return lambda original: property(lambda self: value, lambda self, given: None)


def instead(function: Callable[..., Any]) -> Wrong:
    """A method of its own."""
    return lambda original: function


def result(change: Callable[..., Any]) -> Wrong:
    """The method with another result, a function of the result and of the arguments after `self`."""
    return lambda original: lambda self, *given: change(original(self, *given), *given)


def given(change: Callable[..., tuple[Any, ...]]) -> Wrong:
    """The method with other arguments."""
    return lambda original: lambda self, *given: original(self, *change(*given))


def negated(value: Tensor, *given: object) -> Tensor:
    return -value


def with_negative(name: str) -> Wrong:
    """The method on a batch in which a field has the other sign."""

    def change(batch: TokenBatch, *more: Any) -> tuple[Any, ...]:
        value = getattr(batch, name)
        return (batch if value is None else batch.with_fields(**{name: -value}), *more)

    return given(change)


def old_for_current(batch: TokenBatch) -> tuple[TokenBatch]:
    return (batch.with_fields(logp_old=batch.logp),)


def responses(batch: TokenBatch) -> Tensor:
    return batch.mask.any(1).sum().clamp(min=1)


def full(batch: TokenBatch, value: Tensor) -> Tensor:
    return value.double().expand(batch.mask.shape)


def per_group(function: Callable[[Tensor], Tensor]) -> Wrong:
    """An advantage that looks at each group by itself."""

    def advantage(self: object, reward: Tensor, group: Tensor) -> Tensor:
        values = torch.zeros_like(reward)
        for name in group.unique():
            values[group == name] = function(reward[group == name])
        return values

    return instead(advantage)


def longest_response(self: object, batch: TokenBatch, counted: Tensor) -> Tensor:
    return full(batch, 1 / (responses(batch) * counted.sum(1).amax().clamp(min=1)))


def anchored_to_itself(when: Callable[[TokenBatch], bool] = lambda rows: True) -> Wrong:
    def wrong(ratio: Any) -> Any:
        return lambda self, rows, logp: (logp - logp.detach()).exp() if when(rows) else ratio(self, rows, logp)

    return wrong


def clips_also(more: Callable[[Tensor, Tensor, Bounds], Tensor]) -> Wrong:
    return result(lambda clips, ratio, advantage, bounds: clips | more(ratio, advantage, bounds))


def log_ratio(rows: TokenBatch, logp: Tensor) -> Tensor:
    """[n, T] of the tokens; 0 where the policy has not moved."""
    return (logp - logp.detach() if rows.logp_old is None else logp - rows.logp_old).clamp(-20, 20)
