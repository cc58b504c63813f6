"""REINFORCE++-baseline (arXiv:2501.03262, eq. 8): (R - mean_group) / std over the batch's rows; clip 0.2; 1e-5 k2.

OpenRLHF: over all tokens, whose mean is taken off as well; mean over all tokens.
"""

from tests.objectives.methods.reinforce_pp_reference import USUAL
from tests.objectives.parts_reference import center_then_global_norm, clipped, kl, token_mean

BASELINE = USUAL | {"penalties": [kl(1e-5, "k2")]}

RECIPES = {
    "reinforce_pp_baseline": clipped(**BASELINE, advantage=center_then_global_norm()),
    "reinforce_pp_baseline(variant=authors)": clipped(
        **BASELINE | {"share": token_mean}, advantage=center_then_global_norm("tokens")
    ),
}

COMPOSITIONS = {"reinforce_pp_baseline-kl": clipped(**USUAL, advantage=center_then_global_norm())}
