"""Mistakes that one could make in GiGPO's advantage of a turn."""

from typing import Any

import torch
from torch import Tensor

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, given, instead, negated, result

PART = "turn_advantage"


def undiscounted_rewards(self: Any, reward: Tensor, is_there: Tensor) -> Tensor:
    return reward


def from_the_start(self: Any, reward: Tensor, is_there: Tensor) -> Tensor:
    powers = self.gamma ** torch.arange(reward.shape[1], dtype=reward.dtype)
    return (reward * powers).flip(1).cumsum(1).flip(1)


def of_all_groups(returns: Tensor, group: Tensor, state: Tensor) -> tuple[Tensor, ...]:
    return returns, torch.zeros_like(group), state


def whatever_state(returns: Tensor, group: Tensor, state: Tensor) -> tuple[Tensor, ...]:
    return returns, group, torch.zeros_like(state)


def of_first_token(batch: TokenBatch) -> tuple[TokenBatch]:
    return (batch.with_fields(turn=torch.zeros_like(batch.turn)),)


BREAKS = [
    Break("sign", "turns that went on well are lowered", PART, "weight", result(negated)),
    Break("scale", "omega twice", PART, "weight", result(lambda value, *_: 2 * value)),
    Break("return", "a turn's own reward alone", PART, "_returns", instead(undiscounted_rewards)),
    Break("return", "discounted from the start", PART, "_returns", instead(from_the_start)),
    Break("group", "the same state of another prompt", PART, "_advantage", given(of_all_groups)),
    Break("group", "turns of all states", PART, "_advantage", given(whatever_state)),
    Break("turn", "a response is one turn", PART, "weight", given(of_first_token)),
    Break("scale", "without the std", PART, "scaled", always(False)),
]
