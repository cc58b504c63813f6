"""Mistakes that one could make in W-REINFORCE."""

from torch import Tensor

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, given, negated, result


def centred(advantage: Tensor, batch: TokenBatch) -> Tensor:
    return advantage - advantage.mean()


BREAKS = [
    Break("sign", "right and wrong exchanged", "signed_reward", "of", result(negated)),
    Break("sign", "psr trains on wrong answers", "answer_filter", "selects", result(lambda kept, batch: ~kept)),
    Break("bound", "right as much as wrong", "signed_reward", "right", always(1.0)),
    Break("denominator", "dropped answers stay", "answer_filter", "keep", always("all")),
    Break("scope", "a baseline", "signed_reward", "of", result(centred)),
    Break(
        "strictness",
        "half right is right",
        "signed_reward",
        "of",
        given(lambda batch: (batch.with_fields(correct=(batch.correct > 0).double()),)),
    ),
]
