"""Mistakes that one could make in Advantage Reweighting."""

import torch

from tests.objectives.breaks import Break, always, given, old_for_current, result

BREAKS = [
    Break(
        "sign",
        "probable tokens attenuated",
        "advantage_reweighting",
        "weight",
        result(lambda weight, batch: 2 - weight),
    ),
    Break(
        "sign",
        "only rewarded tokens",
        "advantage_reweighting",
        "weight",
        result(lambda weight, batch: torch.where(batch.advantage > 0, weight, 1.0)),
    ),
    Break(
        "denominator",
        "renormalised",
        "advantage_reweighting",
        "weight",
        result(lambda weight, batch: weight / weight[batch.mask].mean()),
    ),
    Break("scope", "current probabilities", "advantage_reweighting", "weight", given(old_for_current)),
    Break("bound", "authors' KL not clamped", "kl", "clamp", always(None)),
]
