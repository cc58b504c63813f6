"""Mistakes that one could make in REAL."""

from typing import Any

import torch
from torch import Tensor

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, given, instead, result


def negated_push(extra: dict[str, Tensor], batch: TokenBatch) -> dict[str, Tensor]:
    return {**extra, "push": -extra["push"]}


def without_the_one(self: Any, batch: TokenBatch) -> dict[str, Tensor]:
    """A softmax over the good ones and one over the others, which does not stop."""
    rows, lengths = batch.mask.any(1), batch.mask.sum(1).clamp(min=1)
    change = ((batch.logp - (batch.logp if batch.logp_old is None else batch.logp_old)).clamp(-20, 20)) * batch.mask
    s, good = change.sum(1) / lengths / self.tau, batch.advantage.sum(1) > 0
    push = torch.zeros_like(s)
    for name in batch.group.unique():
        group = rows & (batch.group == name)
        for kind, sign in ((group & good, 1.0), (group & ~good, -1.0)):
            if (group & good).any() and (group & ~good).any():
                push[kind] = sign * group.sum() / self.tau * (-sign * s[kind]).softmax(0)
    return {"push": push, "value": torch.zeros_like(push)}


def with_the_ratio(loss: Any) -> Any:
    return lambda self, ratio, *more: ratio * loss(self, ratio, *more)


BREAKS = [
    Break("sign", "good and bad exchanged", "group_contrast", "extra", result(negated_push)),
    Break("bound", "another temperature", "group_contrast", "tau", always(1.0)),
    Break("bound", "no anchor", "group_contrast", "extra", instead(without_the_one)),
    Break(
        "scope",
        "one group of the whole batch",
        "group_contrast",
        "extra",
        given(lambda batch: (batch.with_fields(group=batch.group * 0),)),
    ),
    Break(
        "denominator",
        "a prompt counts once, however many responses",
        "group_contrast",
        "extra",
        result(
            lambda extra, batch: {
                **extra,
                "push": extra["push"] / (batch.group[:, None] == batch.group[None]).sum(1).clamp(min=1),
            }
        ),
    ),
    Break("detach", "with the ratio", "group_contrast", "loss", with_the_ratio),
]
