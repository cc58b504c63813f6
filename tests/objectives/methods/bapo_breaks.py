"""Mistakes that one could make in BAPO."""

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, given


def exchanged(bounds: object, batch: TokenBatch) -> tuple[object, TokenBatch]:
    return bounds, batch.with_fields(advantage=-batch.advantage)


BREAKS = [
    Break("sign", "the share of bad tokens", "balanced_clip", "modify", given(exchanged)),
    Break("bound", "another target", "balanced_clip", "target", always(0.2)),
    Break("bound", "upper bound stops early", "balanced_clip", "upper_most", always(2.0)),
    Break("order", "lower bound first", "balanced_clip", "first", always("lower")),
    Break("scope", "without old probabilities", "balanced_clip", "weighted", always(False)),
    Break("scope", "per micro-batch", "balanced_clip", "scope", always("microbatch")),
]
