"""Mistakes that one could make in Clip-Cov."""

import torch

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, given, with_negative


def none_clipped(batch: TokenBatch) -> tuple[TokenBatch]:
    return (batch.with_fields(clipped=torch.zeros_like(batch.mask)),)


BREAKS = [
    Break("sign", "negative covariance", "clip_cov", "keeps", with_negative("advantage")),
    Break("denominator", "silenced tokens not counted", "clip_cov", "shrinks_denominator", always(True)),
    Break("scope", "drawn among all tokens below", "clip_cov", "low", always(-1e9)),
    Break("scope", "drawn among clipped ones too", "clip_cov", "keeps", given(none_clipped)),
    Break("scope", "means per micro-batch", "clip_cov", "scope", always("microbatch")),
    Break("sign", "the largest lots", "clip_cov", "keeps", with_negative("lot")),
]
