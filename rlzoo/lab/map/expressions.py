"""What the map shows if nothing is named."""

from objectives import names, with_examples

CONTRASTS = (
    "grpo-kl",
    "grpo-kl+clip_higher",
    "grpo-kl+unclipped",
    "grpo-kl+token_mean",
    "grpo-kl+token_mean+sampler_correction",
    "grpo-kl+token_mean+sampler_correction(level=product)",
    "grpo-kl+token_mean+sampler_ratio",
    "stapo(tau_p=0.05)",
    "stare(target_entropy=none,amplify=1.5)",
    "kl_cov(fraction=0.05)",
    "clip_cov(fraction=0.05)",
)
"""Beside the recipes: those in which one mechanism differs, and published thresholds that are too low for a language of
five symbols, scaled to it."""


def all_expressions() -> list[str]:
    """Every recipe, and the contrasts."""
    return [*(with_examples(name) for name in names() if name.kind == "recipe"), *CONTRASTS]
