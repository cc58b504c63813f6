"""Mistakes that one could make in M2PO."""

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, given, result

MASK, CLIP = "second_moment_mask", "second_moment_clip"


def harmless(batch: TokenBatch) -> tuple[TokenBatch]:
    return (batch.with_fields(advantage=-batch.advantage),)


def all_tokens(batch: TokenBatch) -> tuple[TokenBatch]:
    if batch.logp_old is None:
        return (batch,)
    return (batch.with_fields(advantage=(batch.logp - batch.logp_old).sign()),)


BREAKS = [
    Break("sign", "the harmless tokens", MASK, "keeps", given(harmless)),
    Break("scope", "all tokens", MASK, "keeps", given(all_tokens)),
    Break("bound", "twice the budget", MASK, "budget", always(0.08)),
    Break("denominator", "silenced tokens leave it", MASK, "shrinks_denominator", always(True)),
    Break("bound", "another floor", CLIP, "low", always(0.2)),
    Break("scope", "the whole mini-batch", CLIP, "scope", always("minibatch")),
    Break("strictness", "clipped within the budget", CLIP, "_tau", result(lambda tau, batch: tau.clamp(max=0.1))),
]
