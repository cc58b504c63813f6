"""Teachers, tools and turns."""

from dataclasses import replace

import numpy as np

from objectives import Writer
from tests.objectives.batches import Array, Case, Flags
from tests.objectives.references import grpo
from tests.objectives.references.parts import (
    clip,
    clipped,
    entropy_bonus,
    group_center,
    group_norm,
    kl,
    micro_batch_mean,
    reinforce,
    seq_mean,
    seq_sum,
    token_mean,
    unclipped,
)
from tests.objectives.references.stages import Reference, Share, Sized, Term, groups, per_token, stage

REFERENCES: dict[str, Reference] = {}

# On-policy distillation, from its sources.
#
# thinking-machines-lab/tinker-cookbook@9dfcc3a, distillation/train_on_policy.py:75-105: -coefficient (log p_sampled -
# log q_teacher), added to the advantages; `importance_sampling` is -sum of ratio times advantage.
# verl-project/verl@1dda039, trainer/distillation/losses.py:270-300, 395-430: -k1 of the current policy as advantage.
# THUDM/slime@624b824, backends/megatron_utils/loss.py:663: GRPO's advantage less opd_kl_coef (log p_old - log
# q_teacher).


@stage
def taught(case: Case, reward: Array, *, weight=1.0, current=False, clamp=np.inf, rewarded=False) -> Sized:
    """Weight (log p_teacher - log p) of each token, on top of GRPO's advantage or of nothing."""
    policy = case.current if current else case.logp_old
    gap = weight * np.clip(case.logp_teacher - policy, -clamp, clamp)
    base, size = group_norm(case, reward) if rewarded else (0 * reward, 0 * reward)
    return per_token(case, base) + gap, per_token(case, size) + weight * (abs(case.logp_teacher) + abs(policy))


OPD_PPO = clip(cap=3.0)


REFERENCES |= {
    "opd": clipped(advantage=taught(), surrogate=unclipped, share=seq_sum),
    "opd(variant=verl)": clipped(advantage=taught(current=True), surrogate=OPD_PPO, stops_gradients=True),
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


# OPSD for sampled tokens (arXiv:2601.18734; siyan-zhao/OPSD@590ec26 opsd_trainer.py:686-711).
#
# -mean of sg[log p_teacher - log p] log p: of each response and then of them, or of each micro-batch in the code.

OPSD = {"advantage": taught(current=True), "surrogate": reinforce, "stops_gradients": True}


REFERENCES |= {
    "opsd": clipped(**OPSD, share=seq_mean),
    "opsd(variant=authors)": clipped(**OPSD, share=micro_batch_mean),
}


# RLSD (arXiv:2604.03128 Algorithm 1; iie-ycx/RLSD@93e46f7 dp_opsd_actor.py:210-250), in its first step.
#
# A (1 - m + m clip((p_teacher / p)^sign(A), 1 - eps, 1 + eps)), m = 0.5; p is the old policy's, in the code the new.


@stage
def evidence(case: Case, advantage: Array, *, mix=0.5, width=0.2, current=False) -> Array:
    """What A is multiplied by."""
    gain = case.logp_teacher - (case.current if current else case.logp_old)
    likelier = np.exp(np.where(advantage < 0, -gain, gain))
    return np.where(advantage == 0, 1.0, 1 - mix + mix * np.clip(likelier, 1 - width, 1 + width))


REFERENCES |= {
    "rlsd": clipped(weights=[evidence()], surrogate=clip(), share=seq_mean),
    "rlsd(variant=authors)": clipped(
        weights=[evidence(current=True)], surrogate=clip(high=0.28, cap=3.0), stops_gradients=True
    ),
    "justrl+rlsd(mix=0.8,width=0.4,steps=0)": clipped(weights=[evidence(0.8, 0.4)]),
}


# SDAR (arXiv:2605.15155; ZJU-REAL/SDAR@8b85c23 sdar_utils.py:14-52, dp_actor.py:408-457).
#
# GRPO + 0.01 k3 + lambda times the mean of sg[sigmoid(beta gap)] gap, gap = log p_teacher - log p.


@stage
def gated(case: Case, advantage: Array, share: Share, *, weight=0.01, beta=5.0) -> Term:
    """The gap of each token through its gate, meant over all of them as the loss is; the gate is a number."""
    gap = case.logp_teacher - case.current
    each = share(case, case.mask) * weight * case.mask / (1 + np.exp(-beta * gap))
    rounding = 1 + beta * (abs(case.logp_teacher) + abs(case.current))
    return Term(each * gap, -each, np.zeros(gap.shape), each * rounding * (1 + abs(gap)))


SDAR = {"stops_gradients": True}


REFERENCES |= {
    "sdar": clipped(surrogate=clip(), share=seq_mean, penalties=[gated(), kl(0.01)], **SDAR),
    "sdar(variant=authors)": clipped(
        surrogate=clip(cap=3.0),
        share=micro_batch_mean,
        penalties=[gated(), kl(0.01, clamp=20.0), entropy_bonus(0.001)],
        **SDAR,
    ),
    "justrl+sdar(coefficient=0.5,beta=2)": clipped(penalties=[gated(0.5, 2.0)], **SDAR),
}


# GiGPO (arXiv:2505.10978): eq. 3 for the episode, eq. 5 to 8 for its turns, added up.


def discounted_turns(case: Case, row: int, gamma: float) -> list[tuple[Flags, int, float]]:
    """The tokens of each turn of a response, the state in which it began, and its return."""
    turns = []
    for number in sorted(set(case.turn[row, case.mask[row]].tolist())):
        tokens = case.mask[row] & (case.turn[row] == number)
        state, reward = (values[row, tokens][0] for values in (case.turn_state, case.turn_reward))
        turns.append((tokens, int(state), float(reward)))
    rewards = [reward for _, _, reward in turns]
    returns = [sum(gamma ** (j - k) * rewards[j] for j in range(k, len(turns))) for k in range(len(turns))]
    return [(tokens, state, value) for (tokens, state, _), value in zip(turns, returns, strict=True)]


@stage
def by_state(case: Case, *, omega=1.0, gamma=0.95, scaled=True, eps=1e-6) -> Sized:
    """Omega times the z-score of a turn's return among those of its group that began in its state."""
    added, size = np.zeros(case.mask.shape), np.zeros(case.mask.shape)
    for rows in groups(case):
        turns = [(row, *turn) for row in rows.nonzero()[0] for turn in discounted_turns(case, row, gamma)]
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


GIGPO = {"surrogate": clip(), "share": token_mean}


REFERENCES |= {
    "gigpo": clipped(**GIGPO, additions=[by_state()], penalties=[kl(0.01)]),
    "gigpo(variant=unscaled)": clipped(
        **GIGPO, advantage=group_center, additions=[by_state(scaled=False)], penalties=[kl(0.01)]
    ),
    "gigpo(variant=authors)": clipped(
        surrogate=clip(cap=3.0), share=micro_batch_mean, advantage=group_norm, additions=[by_state()]
    ),
    "grpo+turn_advantage(omega=0.5,gamma=0.5)": clipped(
        surrogate=clip(), share=seq_mean, additions=[by_state(0.5, 0.5)], penalties=[kl()]
    ),
    "justrl+gigpo(scaled=false,gamma=1)": clipped(additions=[by_state(gamma=1.0, scaled=False)]),
}


# ECHO (arXiv:2605.24517; PrimeIntellect-ai/prime-rl@559b447, loss.py:246-259 and 394, algo/echo.py:41-90).
#
# GRPO + lambda times the mean of -log p over what the environment wrote behind the policy's first token.


@stage
def observing(case: Case, selected: Flags, *, alpha=0.05) -> Term:
    """Every observed token of the rows that are trained on has one share."""
    observed = np.zeros(case.mask.shape, dtype=bool)
    for row, writers in enumerate(case.writer.tolist()):
        first = writers.index(Writer.POLICY) if Writer.POLICY in writers else len(writers)
        observed[row, first:] = (case.writer[row, first:] == Writer.ENVIRONMENT) & selected[row]
    each = observed * alpha / max(1, observed.sum())
    return Term(-each * np.where(observed, case.current, 0.0), -each, np.zeros(each.shape), each)


REFERENCES |= {
    "echo": clipped(surrogate=clip(), share=seq_mean, penalties=[kl()], observations=[observing()]),
    "echo(variant=prime_rl)": replace(grpo.REFERENCES["dppo(variant=prime_rl)"], observations=[observing(0.1)]),
    "justrl+echo(alpha=0.5)": clipped(observations=[observing(0.5)]),
}
