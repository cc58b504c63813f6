"""Mistakes that one could make in GDPO."""

import torch

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, given, negated, result

PART = "decoupled_norm"


def added_up(batch: TokenBatch) -> tuple[TokenBatch]:
    """The sum of the rewards, normalised: GRPO's."""
    return (batch.with_fields(rewards=batch.rewards.sum(1, keepdim=True)),)


def one_group(batch: TokenBatch) -> tuple[TokenBatch]:
    return (batch.with_fields(group=torch.zeros_like(batch.group)),)


def first_alone(batch: TokenBatch) -> tuple[TokenBatch]:
    return (batch.with_fields(rewards=batch.rewards[:, :1]),)


BREAKS = [
    Break("sign", "worse is good", PART, "of", result(negated)),
    Break("weight", "the sum of the rewards", PART, "of", given(added_up)),
    Break("scope", "one group of the whole batch", PART, "of", given(one_group)),
    Break("scope", "over the tokens of the batch", PART, "over", always("tokens")),
    Break("bound", "another addend", PART, "eps", always(0.1)),
    Break("scope", "groups judged by the first reward", "dynamic_sampling_by_reward", "selects", given(first_alone)),
]
