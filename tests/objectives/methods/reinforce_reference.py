"""REINFORCE (Williams 1992): R log pi, summed over each response, meant over responses.

The value is that of R pi / sg[pi], which has the same gradient.
"""

from tests.objectives.batches import Array, Case
from tests.objectives.methods.gpg_reference import reinforce
from tests.objectives.parts_reference import clipped, seq_sum


def raw_reward(case: Case, reward: Array) -> tuple[Array, Array]:
    """The reward."""
    return reward, abs(reward)


RECIPES = {"reinforce": clipped(advantage=raw_reward, surrogate=reinforce, share=seq_sum, stops_gradients=True)}

COMPOSITIONS = {"justrl+reinforce": clipped(surrogate=reinforce, stops_gradients=True)}
