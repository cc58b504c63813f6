"""Mistakes that one could make in DG."""

from tests.objectives.breaks import Break, always, result, with_negative

BREAKS = [
    Break("sign", "unwelcome surprises", "delight", "weight", with_negative("advantage")),
    Break("bound", "another temperature", "delight", "eta", always(1.1)),
    Break("scale", "a sure token counts fully", "delight", "weight", result(lambda weight, batch: 2 * weight)),
]
