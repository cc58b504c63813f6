"""Mistakes that one could make in FIPO."""

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, given


def exchanged(batch: TokenBatch) -> tuple[TokenBatch]:
    return (batch.with_fields(logp=batch.logp_old, logp_old=batch.logp),)


def tools_take_part(batch: TokenBatch) -> tuple[TokenBatch]:
    return (batch.with_fields(mask=batch.like_tokens(batch.mask.any(1))),)


BREAKS = [
    Break("sign", "old policy over the current one", "future_kl", "weight", given(exchanged)),
    Break("bound", "half-life of one token", "future_kl", "half_life", always(1.0)),
    Break("bound", "another largest weight", "future_kl", "high", always(1.5)),
    Break("bound", "far tokens have a say", "future_kl", "cap", always(1e30)),
    Break("bound", "bad tokens weighed more", "future_kl", "safe", always(1e30)),
    Break("scope", "tools lengthen the distance", "future_kl", "weight", given(tools_take_part)),
    Break("denominator", "weights below 1", "future_kl", "low", always(0.8)),
]
