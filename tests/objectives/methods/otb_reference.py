"""OTB (arXiv:2602.07078; verl-project/verl@1dda039 docs/algo/otb.md, core_algos.py:872-987 for the variant verl).

R - sum_j W_jt R_j / sum_j W_jt over the t-th tokens of a group, W the sum up to t of 1 - 2 pi + sum of pi^2.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.methods.gpg_reference import reinforce
from tests.objectives.parts_reference import clip, clipped, seq_sum
from tests.objectives.reference import groups


def token_baseline(keeps_reward: bool = False) -> Callable[[Case, Array], tuple[Array, Array]]:
    """What a response's t-th token is worth, beside those of its group; a token alone is worth 0, or the reward."""

    def advantage(case: Case, reward: Array) -> tuple[Array, Array]:
        result, size = np.zeros(case.mask.shape), np.zeros(case.mask.shape)
        step = np.maximum(1 - 2 * np.exp(case.logp_old) + case.sum_pi_squared_old, 0.0)
        for rows in groups(case):
            members = np.flatnonzero(rows)
            at = {row: np.flatnonzero(case.mask[row]) for row in members}
            equal = len(set(reward[rows].tolist())) == 1
            for t in range(case.mask.shape[1]):
                here = [row for row in members if t < len(at[row])]
                places = [at[row][t] for row in here]
                if len(here) == 1:
                    result[here[0], places[0]] = size[here[0], places[0]] = reward[here[0]] if keeps_reward else 0.0
                elif here and not equal:
                    w = np.array([step[row, at[row][: t + 1]].sum() for row in here])
                    r, mean = reward[here], reward[rows].mean()
                    base = (w * r).sum() / w.sum() if w.sum() else mean
                    result[here, places] = r - base
                    size[here, places] = abs(r) + abs(mean) + abs(r).max()
        return result, abs(size)

    return advantage


PLAIN: dict[str, Any] = {"surrogate": reinforce, "share": seq_sum, "stops_gradients": True}

RECIPES = {
    "otb": clipped(**PLAIN, advantage=token_baseline()),
    "otb(variant=verl)": clipped(advantage=token_baseline(keeps_reward=True), surrogate=clip(cap=3.0)),
}

COMPOSITIONS = {"justrl+otb": clipped(advantage=token_baseline())}
