"""LUSPO (arXiv:2602.05261): a response's geometric mean of ratios, clipped to 1 - 2e-3 ... 1 + 2.5e-3, times |y|."""

from tests.objectives.methods.advantage_reweighting_reference import reweighting
from tests.objectives.methods.gspo_reference import sequence_ratio
from tests.objectives.parts_reference import clip, clipped, group_center, seq_sum

LUSPO = {"stops_gradients": True, "ratio": sequence_ratio(), "surrogate": clip(2e-3, 2.5e-3), "share": seq_sum}

RECIPES = {"luspo": clipped(**LUSPO)}

COMPOSITIONS = {"luspo+group_center+ar": clipped(**LUSPO, advantage=group_center, weights=[reweighting(0.3)])}
