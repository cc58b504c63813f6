"""MaxRL (arXiv:2602.02710): (c - mean) / (mean + 1e-6) of correctness, 0 where none is right; clip 0.2."""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clip, clipped
from tests.objectives.reference import groups


def mean_norm(eps: float = 1e-6) -> Callable[[Case, Array], tuple[Array, Array]]:
    """Correctness less its mean, over that mean; whatever the rewards."""

    def advantage(case: Case, reward: Array) -> tuple[Array, Array]:
        result, size = np.zeros(len(reward)), np.zeros(len(reward))
        for rows in groups(case):
            peers = case.correct[rows]
            if len(set(peers.tolist())) > 1:
                mean = peers.sum() / len(peers)
                result[rows], size[rows] = (peers - mean) / (mean + eps), (peers + mean) / (mean + eps)
        return result, size

    return advantage


RECIPES = {"maxrl": clipped(advantage=mean_norm(), surrogate=clip())}

COMPOSITIONS = {
    "maxrl(eps=0.1)": clipped(advantage=mean_norm(0.1), surrogate=clip()),
    "justrl+maxrl": clipped(advantage=mean_norm()),
}
