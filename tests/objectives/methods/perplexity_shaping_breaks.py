"""Mistakes that one could make in perplexity shaping."""

import torch

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, given, result, with_negative

PART = "perplexity_weight"


def one_group(batch: TokenBatch) -> tuple[TokenBatch]:
    return (batch.with_fields(group=torch.zeros_like(batch.group)),)


BREAKS = [
    Break("sign", "surprising responses count more", PART, "weight", with_negative("logp_old")),
    Break("scope", "one group of the whole batch", PART, "weight", given(one_group)),
    Break("bound", "another alpha", PART, "alpha", always(0.02)),
    Break("bound", "a wider weight", PART, "width", always(0.9)),
    Break("weight", "not at all, as in the authors' script", PART, "weight", result(lambda weight, batch: weight**0)),
]
