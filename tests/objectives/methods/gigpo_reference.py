"""GiGPO (arXiv:2505.10978): eq. 3 for the episode, eq. 5 to 8 for its turns, added up."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.objectives.batches import Array, Case, Flags
from tests.objectives.parts_reference import (
    clip,
    clipped,
    group_center,
    group_norm,
    kl,
    micro_batch_mean,
    seq_mean,
    token_mean,
)
from tests.objectives.reference import groups


def discounted(case: Case, row: int, gamma: float) -> list[tuple[Flags, int, float]]:
    """The tokens of each turn of a response, the state in which it began, and its return."""
    turns = []
    for number in sorted(set(case.turn[row, case.mask[row]].tolist())):
        tokens = case.mask[row] & (case.turn[row] == number)
        state, reward = (values[row, tokens][0] for values in (case.turn_state, case.turn_reward))
        turns.append((tokens, int(state), float(reward)))
    rewards = [reward for _, _, reward in turns]
    returns = [sum(gamma ** (j - k) * rewards[j] for j in range(k, len(turns))) for k in range(len(turns))]
    return [(tokens, state, value) for (tokens, state, _), value in zip(turns, returns, strict=True)]


def by_state(
    omega: float = 1.0, gamma: float = 0.95, scaled: bool = True, eps: float = 1e-6
) -> Callable[[Case], tuple[Array, Array]]:
    """Omega times the z-score of a turn's return among those of its group that began in its state."""

    def addition(case: Case) -> tuple[Array, Array]:
        added, size = np.zeros(case.mask.shape), np.zeros(case.mask.shape)
        for rows in groups(case):
            turns = [(row, *turn) for row in rows.nonzero()[0] for turn in discounted(case, row, gamma)]
            for state in {state for _, _, state, _ in turns}:
                peers = [value for _, _, other, value in turns if other == state]
                if len(set(peers)) == 1:
                    continue
                mean = sum(peers) / len(peers)
                below = np.std(peers, ddof=1) + eps if scaled else 1.0
                for row, tokens, _, value in (turn for turn in turns if turn[2] == state):
                    added[row, tokens] = omega * (value - mean) / below
                    size[row, tokens] = omega * (abs(value) + abs(mean) + max(map(abs, peers))) / below
        return added, size

    return addition


EPISODE: dict[str, Any] = {"surrogate": clip(), "share": token_mean}

RECIPES = {
    "gigpo": clipped(**EPISODE, additions=[by_state()], penalties=[kl(0.01)]),
    "gigpo(variant=unscaled)": clipped(
        **EPISODE, advantage=group_center, additions=[by_state(scaled=False)], penalties=[kl(0.01)]
    ),
    "gigpo(variant=authors)": clipped(
        surrogate=clip(cap=3.0), share=micro_batch_mean, advantage=group_norm, additions=[by_state()]
    ),
}

COMPOSITIONS = {
    "grpo+turn_advantage(omega=0.5,gamma=0.5)": clipped(
        surrogate=clip(), share=seq_mean, additions=[by_state(0.5, 0.5)], penalties=[kl()]
    ),
    "justrl+gigpo(scaled=false,gamma=1)": clipped(additions=[by_state(gamma=1.0, scaled=False)]),
}
