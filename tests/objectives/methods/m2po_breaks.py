"""Mistakes that one could make in M2PO."""

from objectives import Bounds, TokenBatch
from tests.objectives.breaks import Break, always, given, result

CLIP = "second_moment_clip"


def harmless(bounds: Bounds, batch: TokenBatch) -> tuple[Bounds, TokenBatch]:
    return bounds, batch.with_fields(advantage=-batch.advantage)


def all_tokens(bounds: Bounds, batch: TokenBatch) -> tuple[Bounds, TokenBatch]:
    if batch.logp_old is None:
        return bounds, batch
    return bounds, batch.with_fields(advantage=(batch.logp - batch.logp_old).sign())


BREAKS = [
    Break("sign", "the harmless tokens", CLIP, "modify", given(harmless)),
    Break("scope", "all tokens", CLIP, "modify", given(all_tokens)),
    Break("bound", "twice the budget", CLIP, "budget", always(4.0)),
    Break("bound", "another floor", CLIP, "low", always(0.2)),
    Break("strictness", "clipped within the budget", CLIP, "_tau", result(lambda tau, squares: min(tau, 0.1))),
]
