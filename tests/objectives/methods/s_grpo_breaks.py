"""Mistakes that one could make in S-GRPO."""

from typing import Any

from torch import Tensor

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, result, with_negative

PART = "random_tokens"


def first_kept_too(kept: Tensor, batch: TokenBatch) -> Tensor:
    return kept | (batch.mask & (batch.mask.cumsum(1) == 1))


def whole_responses(kept: Tensor, *given: Any) -> Tensor:
    """One lot for each response."""
    return kept[:, :1].expand(kept.shape)


BREAKS = [
    Break("sign", "the largest lots", PART, "keeps", with_negative("lot")),
    Break("denominator", "tokens that are not drawn are counted", PART, "shrinks_denominator", always(False)),
    Break("bound", "half of the tokens", PART, "share", always(0.5)),
    Break("bound", "two tokens of a response at most", PART, "limit", always(2)),
    Break("scope", "the first token always", PART, "keeps", result(first_kept_too)),
    Break("scope", "responses are drawn, not tokens", PART, "keeps", result(whole_responses)),
]
