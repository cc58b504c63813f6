"""REC (arXiv:2509.24203; agentscope-ai/Trinity-RFT@1d7fae4, policy_loss_fn/rec_policy_loss.py:66-116)."""

from collections.abc import Callable

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clipped, group_center


def rec(mode: str, weighted: bool = False, low: float = 0.2, high: float = 0.2) -> Callable[..., tuple[Array, ...]]:
    """The branches of the code, whose sums of flags are disjunctions."""

    def surrogate(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
        inside = (ratio >= 1 - low) & (ratio <= 1 + high)
        if mode == "one-side":
            inside = ((ratio <= 1 + high) & (advantage >= 0)) | ((advantage <= 0) & (ratio >= 1 - low))
        if mode == "ring":
            inside = inside | ((advantage >= 0) & (ratio <= 1 - 0.6)) | ((advantage <= 0) & (ratio >= 1 + 2.0))
        value = inside * advantage * (ratio if weighted else 1.0)
        return value, value, abs(value)

    return surrogate


REC = {"advantage": group_center, "stops_gradients": True}

RECIPES = {
    "rec": clipped(**REC, surrogate=rec("one-side")),
    "rec(variant=two_side)": clipped(**REC, surrogate=rec("two-side")),
    "rec(variant=ring)": clipped(**REC, surrogate=rec("ring")),
    "rec(variant=is)": clipped(**REC, surrogate=rec("one-side", weighted=True)),
}

COMPOSITIONS = {
    "justrl+rec(low=0.1,high=0.5)": clipped(surrogate=rec("one-side", low=0.1, high=0.5), stops_gradients=True)
}
