"""Dr. GRPO (arXiv:2503.20783): R - mean, and a denominator that no response changes."""

from tests.objectives.parts_reference import clip, clipped, constant_length, group_center

DR_GRPO = {"advantage": group_center, "surrogate": clip()}

RECIPES = {"dr_grpo": clipped(**DR_GRPO, share=constant_length())}

COMPOSITIONS = {"dr_grpo(length=7)": clipped(**DR_GRPO, share=constant_length(7))}
