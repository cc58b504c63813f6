"""REINFORCE++ (arXiv:2501.03262, eq. 1, 8-10): R less beta times the KL to come, over the batch's std; clip 0.2.

OpenRLHF: mean over all tokens.
"""

from tests.objectives.parts_reference import clip, clipped, global_norm, kl_reward, seq_mean, token_mean

USUAL = {"surrogate": clip(), "share": seq_mean}

RECIPES = {
    "reinforce_pp": clipped(**USUAL, advantage=global_norm(), rewards=[kl_reward(0.001, to_go=True)]),
    "reinforce_pp(variant=authors)": clipped(
        **USUAL | {"share": token_mean}, advantage=global_norm(), rewards=[kl_reward(0.01, to_go=True)]
    ),
}

COMPOSITIONS = {
    "reinforce_pp(over=rows,to_go=false,beta=0.05)": clipped(
        **USUAL, advantage=global_norm("rows"), rewards=[kl_reward(0.05)]
    ),
    "reinforce_pp-kl_reward": clipped(**USUAL, advantage=global_norm()),
}
