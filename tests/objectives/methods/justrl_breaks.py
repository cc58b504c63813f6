"""Mistakes that one could make in JustRL."""

from torch import Tensor

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, anchored_to_itself, clips_also, full, instead, responses


def responses_for_tokens(self: object, batch: TokenBatch, counted: Tensor) -> Tensor:
    return full(batch, 1 / responses(batch))


BREAKS = [
    Break(
        "sign", "lower bound on rewarded tokens", "clip", "clips", clips_also(lambda r, a, b: (a > 0) & (r < 1 - b.low))
    ),
    Break("denominator", "divides by the responses", "token_mean", "coefficients", instead(responses_for_tokens)),
    Break("bound", "authors' dual clip at 3", "dual_clip", "cap", always(3.0)),
    Break("bound", "upper bound not raised", "clip_higher", "high", always(0.2)),
    Break("detach", "anchored to the current policy", "token_ratio", "ratio", anchored_to_itself()),
]
