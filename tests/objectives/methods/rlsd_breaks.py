"""Mistakes that one could make in RLSD's weights."""

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, given, result


def without_signs(batch: TokenBatch) -> tuple[TokenBatch]:
    return (batch.with_fields(advantage=batch.advantage.abs()),)


PART = "evidence_reweighting"
BREAKS = [
    Break("sign", "evidence for a token counts for bad responses too", PART, "weight", given(without_signs)),
    Break("sign", "its inverse", PART, "weight", result(lambda weight, *given: 2 - weight)),
    Break("bound", "hardly bounded", PART, "width", always(0.9)),
    Break("weight", "all of it", PART, "mix", always(1.0)),
]
