"""On-policy distillation, from its sources.

thinking-machines-lab/tinker-cookbook@9dfcc3a, distillation/train_on_policy.py:75-105: -coefficient (log p_sampled -
log q_teacher), added to the advantages; `importance_sampling` is -sum of ratio times advantage.
verl-project/verl@1dda039, trainer/distillation/losses.py:270-300, 395-430: -k1 of the current policy as advantage.
THUDM/slime@624b824, backends/megatron_utils/loss.py:663: GRPO's advantage less opd_kl_coef (log p_old - log q_teacher).
"""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clip, clipped, group_norm, kl, seq_mean, seq_sum, unclipped
from tests.objectives.reference import per_token


def taught(
    weight: float = 1.0, current: bool = False, clamp: float = np.inf, rewarded: bool = False
) -> Callable[[Case, Array], tuple[Array, Array]]:
    """Weight (log p_teacher - log p) of each token, on top of GRPO's advantage or of nothing."""

    def advantage(case: Case, reward: Array) -> tuple[Array, Array]:
        policy = case.current if current else case.logp_old
        gap = weight * np.clip(case.logp_teacher - policy, -clamp, clamp)
        base, size = group_norm(case, reward) if rewarded else (0 * reward, 0 * reward)
        return per_token(case, base) + gap, per_token(case, size) + weight * (abs(case.logp_teacher) + abs(policy))

    return advantage


PPO = clip(cap=3.0)

RECIPES = {
    "opd": clipped(advantage=taught(), surrogate=unclipped, share=seq_sum),
    "opd(variant=verl)": clipped(advantage=taught(current=True), surrogate=PPO, stops_gradients=True),
}

COMPOSITIONS = {
    "opd(coefficient=0.3,clamp=0.4)": clipped(advantage=taught(0.3, clamp=0.4), surrogate=unclipped, share=seq_sum),
    "grpo+opd": clipped(advantage=taught(rewarded=True), surrogate=clip(), share=seq_mean, penalties=[kl()]),
    "opd+group_norm": clipped(advantage=taught(rewarded=True), surrogate=unclipped, share=seq_sum),
    "justrl+no_reward+teacher_kl": clipped(
        advantage=lambda case, reward: (0 * reward, 0 * reward), penalties=[kl(1.0, "k3", anchor="teacher")]
    ),
    "opd+teacher_kl(beta=0.2,clamp=5)": clipped(
        advantage=taught(), surrogate=unclipped, share=seq_sum, penalties=[kl(0.2, "k3", 5.0, "teacher")]
    ),
    "justrl+teacher_kl(beta=0.2,estimator=k2)": clipped(penalties=[kl(0.2, "k2", anchor="teacher")]),
    "justrl+teacher_kl(clamp=5)": clipped(penalties=[kl(1.0, "k3", 5.0, "teacher")]),
}
