"""GRPO (arXiv:2402.03300, eq. 3-4): z-scored advantages, clip at 0.2, mean per response, k3 against the reference."""

from tests.objectives.parts_reference import clip, clipped, entropy_bonus, kl, kl_reward, seq_mean
from tests.objectives.reference import Reference


def grpo(low: float = 0.2, high: float = 0.2, cap: float = float("inf"), **stages: object) -> Reference:
    """GRPO with some stages replaced."""
    return clipped(**{"surrogate": clip(low, high, cap), "share": seq_mean, "penalties": [kl()], **stages})


RECIPES = {"grpo": grpo()}

COMPOSITIONS = {
    "grpo+dual_clip": grpo(cap=3.0),
    "grpo(low=0.1)+clip_higher(high=0.5)": grpo(0.1, 0.5),
    "grpo(low=0)": grpo(0.0, 0.0),
    "grpo(estimator=k1)": grpo(penalties=[kl(estimator="k1")]),
    "grpo(estimator=k2,beta=0.5)": grpo(penalties=[kl(0.5, "k2")]),
    "grpo+entropy_bonus(coefficient=0.01)": grpo(penalties=[kl(), entropy_bonus(0.01)]),
    "grpo+epochs(count=3)": grpo(passes=lambda case: [case.mask] * 3),
    "grpo-kl+kl_reward": grpo(penalties=[], rewards=[kl_reward(0.05)]),
}
