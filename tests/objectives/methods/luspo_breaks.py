"""Mistakes that one could make in LUSPO."""

from tests.objectives.breaks import Break, always, full, instead, responses
from tests.objectives.methods.gspo_breaks import over_the_padded_width, through_the_mean

BREAKS = [
    Break(
        "sign",
        "old policy over the current one",
        "sequence_ratio",
        "ratio",
        lambda ratio: lambda self, rows, logp: 1 / ratio(self, rows, logp),
    ),
    Break("bound", "lower width of GSPO", "clip", "low", always(3e-4)),
    Break("bound", "upper width of GSPO", "clip_higher", "high", always(4e-4)),
    Break(
        "denominator",
        "the mean over tokens of GSPO",
        "seq_sum",
        "coefficients",
        instead(lambda self, batch, counted: full(batch, 1 / responses(batch) / batch.mask.sum(1, True).clamp(min=1))),
    ),
    Break("denominator", "ratio's mean over the padding", "sequence_ratio", "ratio", instead(over_the_padded_width)),
    Break("detach", "gradient through the mean", "sequence_ratio", "ratio", instead(through_the_mean)),
]
