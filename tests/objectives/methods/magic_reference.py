"""Skywork-OR1's MAGIC (arXiv:2505.22312): GRPO's token mean, less alpha H; the first step's alpha is its start.

Alpha is on while the mean of H_old, or of -log p_old, is below the target. SkyworkAI/Skywork-OR1@64e96af,
core_algos.py:56-74, ray_trainer.py:1168, dp_actor.py:269-284: the switch is that of the last step, and on at first.
"""

from collections.abc import Callable
from typing import Any

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clip, clipped, dynamic_sampling, entropy_bonus, micro_batch_mean
from tests.objectives.reference import Share, Term


def adaptive_entropy(
    start: float = 0.0, target: float = 0.2, surprisal: bool = False, delayed: bool = False
) -> Callable[[Case, Array, Share], Term]:
    """The entropy bonus of the first step."""

    def penalty(case: Case, advantage: Array, share: Share) -> Term:
        measured = (-case.logp_old if surprisal else case.entropy_old)[case.mask]
        is_on = delayed or (len(measured) > 0 and measured.mean() < target)
        return entropy_bonus(start if is_on else 0.0)(case, advantage, share)

    return penalty


USUAL: dict[str, Any] = {"selects": [dynamic_sampling], "surrogate": clip()}
CODE: dict[str, Any] = {**USUAL, "share": micro_batch_mean}

RECIPES = {
    "magic": clipped(**USUAL, penalties=[adaptive_entropy()]),
    "magic(variant=authors)": clipped(**CODE, penalties=[adaptive_entropy(surprisal=True, delayed=True)]),
}

COMPOSITIONS = {
    "magic(start=0.003)": clipped(**USUAL, penalties=[adaptive_entropy(0.003)]),
    "magic(start=0.003,target_entropy=0.5)": clipped(**USUAL, penalties=[adaptive_entropy(0.003, 0.5)]),
    "magic(start=0.003,measured=surprisal,target_entropy=1)": clipped(
        **USUAL, penalties=[adaptive_entropy(0.003, 1.0, surprisal=True)]
    ),
    "magic(variant=authors,start=0.003)": clipped(**CODE, penalties=[adaptive_entropy(0.003, delayed=True)]),
    "justrl+adaptive_entropy(start=0.01,target_entropy=0.3)": clipped(penalties=[adaptive_entropy(0.01, 0.3)]),
}
