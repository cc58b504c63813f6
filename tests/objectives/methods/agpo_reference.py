"""AGPO version 1 (arXiv:2503.15952): GRPO, with advantages of 1 and -1 where a whole group is right or wrong."""

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clip, clipped, group_norm, kl, seq_mean
from tests.objectives.reference import groups


def agpo(case: Case, reward: Array) -> tuple[Array, Array]:
    """The z-score, or 1 and -1 where the rewards of a group are equal and all of it is right or wrong."""
    result, size = group_norm(case, reward)
    for rows in groups(case):
        if len(set(reward[rows].tolist())) == 1 and len(set(case.correct[rows].tolist())) == 1:
            result[rows] = {1.0: 1.0, 0.0: -1.0}.get(case.correct[rows][0], 0.0)
            size[rows] = abs(result[rows])
    return result, size


USUAL = {"surrogate": clip(), "share": seq_mean}

RECIPES = {"agpo": clipped(**USUAL, advantage=agpo, penalties=[kl(0.04)])}

COMPOSITIONS = {"agpo-kl": clipped(**USUAL, advantage=agpo)}
