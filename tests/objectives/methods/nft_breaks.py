"""Mistakes that one could make in NFT."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from objectives import Bounds
from tests.objectives.breaks import Break, Wrong, always, given, instead, result


def nft_with(negative: Callable[[Any, Tensor], Tensor], omega: bool = True) -> Wrong:
    """NFT with another logarithm for wrong answers, and perhaps without its weight."""

    def loss(self: Any, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Any) -> Tensor:
        correct, success = extra["correct"][:, None], extra["success"][:, None]
        failure = torch.where(success < 1, 1 - success, 1.0)
        wrong = negative(self, (1 - success * ratio) / failure)
        likelihood = correct * ratio.log() + (1 - correct) * wrong
        return -(1 - success if omega else (success < 1).double()) * likelihood

    return instead(loss)


def straight_through(self: Any, implied: Tensor) -> Tensor:
    value = implied.detach().clamp(min=self.eps)
    return value.log() + (implied - implied.detach()) / value


BREAKS = [
    Break(
        "sign",
        "right and wrong exchanged",
        "implicit_negative",
        "extra",
        result(lambda extra, batch: {**extra, "correct": 1 - extra["correct"]}),
    ),
    Break("bound", "ratio bounded at a half", "implicit_negative", "eps", always(0.5)),
    Break(
        "detach",
        "clipped value has no gradient",
        "implicit_negative",
        "loss",
        nft_with(lambda self, implied: implied.clamp(min=self.eps).log()),
    ),
    Break(
        "denominator", "prompts weigh the same", "implicit_negative", "loss", nft_with(straight_through, omega=False)
    ),
    Break(
        "scope",
        "success of the whole batch",
        "implicit_negative",
        "extra",
        given(lambda batch: (batch.with_fields(group=batch.group * 0),)),
    ),
]
