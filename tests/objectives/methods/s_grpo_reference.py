"""S-GRPO (arXiv:2504.20834): pi / sg[pi] A over the first alpha tokens of a response and lots below P, k at most."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.objectives.batches import Array, Case, Flags
from tests.objectives.methods.gpg_reference import reinforce
from tests.objectives.parts_reference import clipped, kl, seq_mean


def random_tokens(
    probability: float, alpha: int = 0, k: float = math.inf
) -> Callable[[Case, Array], tuple[Flags, bool]]:
    """T_i, token by token, as the case distinction has it; the denominators count it alone."""

    def mask(case: Case, advantage: Array) -> tuple[Flags, bool]:
        kept = np.zeros_like(case.mask)
        for row, tokens in enumerate(case.mask):
            for t, position in enumerate(tokens.nonzero()[0]):
                is_drawn = (int(case.lot[row, position]) + 2**63) / 2**64 < probability
                kept[row, position] = t < alpha or (kept[row].sum() < k and is_drawn)
        return kept, True

    return mask


PLAIN: dict[str, Any] = {"surrogate": reinforce, "share": seq_mean, "stops_gradients": True}

RECIPES = {"s_grpo(share=0.4)": clipped(**PLAIN, masks=[random_tokens(0.4)])}

COMPOSITIONS = {
    "s_grpo(share=0.5,first=2,limit=3)": clipped(**PLAIN, masks=[random_tokens(0.5, 2, 3)]),
    "s_grpo(share=0.7,first=3,limit=1)": clipped(**PLAIN, masks=[random_tokens(0.7, 3, 1)]),
    "s_grpo(share=1)+kl": clipped(**PLAIN, penalties=[kl()]),
    "justrl+random_tokens(share=0.3)": clipped(masks=[random_tokens(0.3)]),
}
