"""Mistakes that one could make in TPO."""

from typing import Any

from torch import Tensor

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, given, old_for_current, result

PART = "target_match"


def negated_push(extra: dict[str, Tensor], batch: TokenBatch) -> dict[str, Tensor]:
    return {**extra, "push": -extra["push"]}


def of_each_token(extra: dict[str, Tensor], batch: TokenBatch) -> dict[str, Tensor]:
    return {**extra, "push": extra["push"] / batch.mask.sum(1).clamp(min=1)}


def without_anchor(batch: TokenBatch) -> tuple[TokenBatch]:
    return (batch.with_fields(logp_old=batch.logp_old * 0),)


def one_group(batch: TokenBatch) -> tuple[TokenBatch]:
    return (batch.with_fields(group=batch.group * 0),)


def ddof_1(advantage: Tensor, reward: Tensor, group: Tensor) -> Tensor:
    size = (group[:, None] == group[None]).sum(1)
    return advantage * ((size - 1) / size).sqrt()


def with_the_ratio(loss: Any) -> Any:
    return lambda self, ratio, *more: ratio * loss(self, ratio, *more)


BREAKS = [
    Break("sign", "away from the target", PART, "extra", result(negated_push)),
    Break("bound", "another temperature", PART, "eta", always(2.0)),
    Break("anchor", "a target without the old policy", PART, "extra", given(without_anchor)),
    Break("anchor", "the policy has not moved", PART, "extra", given(old_for_current)),
    Break("scope", "one group of the whole batch", PART, "extra", given(one_group)),
    Break("denominator", "the mean over tokens", PART, "extra", result(of_each_token)),
    Break("denominator", "the deviation of a sample", "population_norm", "advantage", result(ddof_1)),
    Break("detach", "with the ratio", PART, "loss", with_the_ratio),
]
