"""Mistakes that one could make in GVPO."""

from typing import Any

from torch import Tensor

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, given, old_for_current, result

PART = "group_variance"


def one_group(batch: TokenBatch) -> tuple[TokenBatch]:
    return (batch.with_fields(group=batch.group * 0),)


def of_each_token(extra: dict[str, Tensor], batch: TokenBatch) -> dict[str, Tensor]:
    return {**extra, "push": extra["push"] / batch.mask.sum(1).clamp(min=1)}


def biased(extra: dict[str, Tensor], batch: TokenBatch) -> dict[str, Tensor]:
    """Over k, not k - 1."""
    size = (batch.group[:, None] == batch.group[None])[:, batch.mask.any(1)].sum(1).clamp(min=1)
    return {**extra, "push": extra["push"] * (size - 1) / size}


def with_the_ratio(loss: Any) -> Any:
    return lambda self, ratio, *more: ratio * loss(self, ratio, *more)


BREAKS = [
    Break("bound", "another beta", PART, "beta", always(0.2)),
    Break("scope", "one group of the whole batch", PART, "extra", given(one_group)),
    Break("anchor", "the policy has not moved", PART, "extra", given(old_for_current)),
    Break("denominator", "the mean over tokens", PART, "extra", result(of_each_token)),
    Break("denominator", "over k", PART, "extra", result(biased)),
    Break("detach", "with the ratio", PART, "loss", with_the_ratio),
]
