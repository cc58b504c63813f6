"""REINFORCE++-baseline (arXiv:2501.03262, appendix A): (R - mean_group) / std over the batch's rows; clip 0.2.

OpenRLHF: over all tokens, whose mean is taken off as well.
"""

from tests.objectives.methods.reinforce_pp_reference import USUAL
from tests.objectives.parts_reference import center_then_global_norm, clipped
from tests.objectives.reference import Reference

RECIPES = {
    "reinforce_pp_baseline": clipped(**USUAL, advantage=center_then_global_norm()),
    "reinforce_pp_baseline(variant=authors)": clipped(**USUAL, advantage=center_then_global_norm("tokens")),
}

COMPOSITIONS: dict[str, Reference] = {}
