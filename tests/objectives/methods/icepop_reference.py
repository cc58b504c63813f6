"""IcePop (arXiv:2510.18855): GRPO's clipped objective times w = pi_old/pi_sampler, 0 outside [0.5, 5].

Beside it: its neighbours, weights of whole responses, and masks of responses far from the engine or the old policy.
"""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case, Flags
from tests.objectives.parts_reference import clip, clipped, mismatch, sampler_correction, seq_mean


def sampler_mask(
    low: float = 0.999, high: float = 1.002, level: str = "geometric", shrinks: bool = False
) -> Callable[[Case, Array], tuple[Flags, bool]]:
    """Tokens with low <= w <= high."""

    def mask(case: Case, advantage: Array) -> tuple[Flags, bool]:
        ratio = mismatch(case, level)
        return (ratio >= low) & (ratio <= high), shrinks

    return mask


def off_policy_mask(delta: float, anchor: str = "logp_old") -> Callable[[Case, Array], tuple[Flags, bool]]:
    """Not where A < 0 in a response whose log-probs have fallen by more than delta in the mean."""

    def mask(case: Case, advantage: Array) -> tuple[Flags, bool]:
        keeps = case.mask.copy()
        fall = np.clip(getattr(case, anchor) - case.current, -20, 20)
        for row, tokens in enumerate(case.mask):
            if tokens.any() and fall[row, tokens].sum() / tokens.sum() > delta:
                keeps[row] &= advantage[row] >= 0
        return keeps, False

    return mask


USUAL = {"surrogate": clip(), "share": seq_mean}

RECIPES = {"icepop": clipped(**USUAL, weights=[sampler_correction(5.0, 0.5, drop=True)])}

COMPOSITIONS = {
    "icepop(level=product,cap=3,low=0)": clipped(**USUAL, weights=[sampler_correction(3.0, 0.0, "product", True)]),
    "icepop(level=geometric,outside=clamp)": clipped(**USUAL, weights=[sampler_correction(5.0, 0.5, "geometric")]),
    "icepop(cap=none,low=0)+sampler_mask(low=0.8,high=1.5)": clipped(
        **USUAL, weights=[sampler_correction(1e30)], masks=[sampler_mask(0.8, 1.5)]
    ),
    "icepop-icepop+sampler_mask(level=product,shrinks=true,low=0.1,high=9)": clipped(
        **USUAL, masks=[sampler_mask(0.1, 9.0, "product", shrinks=True)]
    ),
    "icepop-icepop+sampler_mask(level=token)": clipped(**USUAL, masks=[sampler_mask(level="token")]),
    "icepop-icepop+off_policy_mask(delta=0.1)+token_mean": clipped(surrogate=clip(), masks=[off_policy_mask(0.1)]),
    "icepop+off_policy_mask(delta=0.5,anchor=sampler)": clipped(
        **USUAL,
        weights=[sampler_correction(5.0, 0.5, drop=True)],
        masks=[off_policy_mask(0.5, "logp_sampler")],
    ),
}
