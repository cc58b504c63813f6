"""A teacher beside the rewards, or in their place."""

from collections.abc import Mapping
from typing import ClassVar

from objectives.batch import Prepared, statistic
from objectives.ops import Tensor
from objectives.part import Penalty, Weight, parameter
from objectives.parts.losses import KL
from objectives.recipes import recipe
from objectives.zoo import register


@register
class TeacherAdvantage(Weight):
    """Adds to a token's advantage how much likelier the teacher finds it than the policy.

    A teacher's opinion of each token as its advantage (On-Policy Distillation, Lu and Thinking Machines Lab, 2025).

        A_it <- A_it + c ( log pi_teacher(y_it) - sg[log pi(y_it)] )

    In expectation over sampled tokens it lowers the reverse KL of the policy to the teacher, token by token; what a
    token does to those behind it is not counted (their kl_discount_factor, 0 by default, is left out). See `opd` and
    `opsd`.
    """

    failure_modes = ("hard_problems", "credit")
    purpose = "a pull towards the teacher"
    additive = True
    reads = frozenset({"logp_teacher", "logp:source"})
    coefficient: float = parameter(1.0, "[0, inf)", "weight of the difference of log-probs", idle=0)
    source: str = parameter("old", ("old", "current"), "whose log-prob is the policy's: at rollout time or now")
    clamp: float | None = parameter(None, "(0, inf)", "bound of the difference's size")

    def weight(self, batch: Prepared) -> Tensor:
        policy = batch.require(statistic("logp", self.source), self.name)
        difference = batch.require("logp_teacher", self.name) - policy
        if self.clamp is not None:
            difference = difference.clamp(-self.clamp, self.clamp)
        return self.coefficient * difference

    def formula(self) -> str:
        policy = "p" if self.source == "current" else "p_old"
        bound = "" if self.clamp is None else f", within {self.clamp:g}"
        return f"A += {self.coefficient:g} * log p_teacher / {policy}{bound}"


@register
class TeacherKL(KL):
    """Divergence from the teacher, per token, estimated from the sampled token and differentiated directly.

    Divergence from a teacher in the loss: on-policy distillation as verl's supervised loss has it (docs/algo/opd.md).

        + beta k2 or k3(pi, pi_teacher),   of the sampled token, differentiated directly

    k2 has the gradient of `teacher_advantage` while the policy has not moved. k1's would not depend on the teacher, and
    divergences of whole distributions (GKD, MiniLLM) need more than the sampled token's log-prob.
    """

    paper = "doi:10.64434/tml.20251026"
    failure_modes = ("hard_problems", "credit")
    purpose: ClassVar[str] = TeacherAdvantage.purpose
    anchor: ClassVar[str] = "teacher"
    reads = frozenset({"logp_teacher"})
    beta: float = parameter(1.0, "[0, inf)", "weight of the divergence in the loss", idle=0)
    estimator: str = parameter("k3", ("k2", "k3"), "which estimator")


recipe(
    "opd",
    "grpo+no_reward+teacher_advantage+unclipped+seq_sum-kl",
    verl="grpo+no_reward+teacher_advantage(source=current)+dual_clip+token_mean-kl",
    paper="doi:10.64434/tml.20251026",
    summary="a teacher's log-prob of each sampled token, less the policy's, as its advantage",
    contribution=("teacher_advantage",),
    aliases=("on_policy_distillation",),
)
"""OPD: on-policy distillation (Lu and Thinking Machines Lab, 2025; thinking-machines-lab/tinker-cookbook@9dfcc3a).

    J = sum_i sum_t r_it A_it,   A_it = log pi_teacher(y_it) - log pi_old(y_it)

Each token that the policy samples earns how much likelier a teacher finds it: minus the reverse KL, as a policy
gradient. Rewards are not looked at; `grpo+opd` adds it to GRPO's advantage, as slime's --use-opd does. The teacher is
another model, model.teacher, or one that reads task.teacher_prompt.
Open: what the sum is divided by; here the number of responses. Left out: kl_discount_factor, 0 by default.
Variant verl (docs/algo/opd.md, use_policy_gradient with k1, without task rewards): the current policy's log-prob in A;
PPO's clip, dual_clip(cap=3), mean over all tokens. Its supervised loss is the part teacher_kl.
"""


recipe(
    "opsd",
    "grpo+no_reward+teacher_advantage(source=current)+reinforce-kl",
    authors="opsd+token_mean(scope=microbatch)",
    paper="arXiv:2601.18734",
    summary="the model with a solution in its prompt teaches the model without",
    contribution=("teacher_advantage",),
)
"""OPSD: on-policy self-distillation (Zhao et al., Self-Distilled Reasoner, arXiv:2601.18734), for sampled tokens.

    J = (1/N) sum_i 1/|y_i| sum_t sg[ log pi_teacher(y_it) - log pi(y_it) ] log pi(y_it)

The teacher is the starting model with a reference solution in its prompt: model.teacher=initial and
task.teacher_prompt. This is their sampled-token objective (section 4.3.5, the code's use_thinking_machines_loss). Left
out: their main one, a clipped divergence over the whole vocabulary, which sampled tokens' log-probs do not give.
Open: the temperature, 1.1 in their scripts; that of the rollouts scores the teacher, too.
Variant authors: the mean over the tokens of each micro-batch.
"""


@register
class EvidenceReweighting(Weight):
    """Weighs a token by how much likelier the teacher finds it where A > 0, and how much less likely where A < 0.

    RLSD's weights by a teacher's evidence (Yang et al., arXiv:2604.03128, eq. 13-15 and Algorithm 1).

    A'_it = A_i ( 1 - m + m clip( (pi_teacher(y_it) / pi(y_it))^sign(A_i), 1 - eps, 1 + eps ) )
    """

    failure_modes = ("credit",)
    goes_by_reward = True
    reads = frozenset({"logp_teacher", "logp:source"})
    printed = "A *= 1 - m + m e"
    mix: float = parameter(0.5, "[0, 1]", "m in the first step: the weight's share, the rest being 1", idle=0)
    width: float = parameter(0.2, "[0, 1)", "eps, how far the weight may be from 1")
    steps: int = parameter(50, "[0, inf)", "steps over which m falls to 0; 0: it stays")
    source: str = parameter("old", ("old", "current"), "whose log-prob is the policy's: at rollout time or now")

    def control(self, batch: Prepared, state: Mapping[str, float]) -> Mapping[str, float]:
        step = state.get("step", -1.0) + 1
        left = max(0.0, 1 - step / self.steps) if self.steps else 1.0
        return {"step": step, "mix": self.mix * left}

    def weight(self, batch: Prepared) -> Tensor:
        policy = batch.require(statistic("logp", self.source), self.name)
        gain = batch.require("logp_teacher", self.name) - policy
        evidence = (batch.advantage.sign() * gain).exp().clamp(1 - self.width, 1 + self.width)
        mix = batch.state_of(self.name)["mix"]
        return 1 - mix + mix * evidence

    def where(self) -> str:
        policy, low, high = "p" if self.source == "current" else "p_old", 1 - self.width, 1 + self.width
        falls = f", falling to 0 over {self.steps} steps" if self.steps else ""
        evidence = f"e = p_teacher / {policy} where A > 0 and {policy} / p_teacher where A < 0, in [{low:g}, {high:g}]"
        return f"{evidence}; m = {self.mix:g}{falls}"


recipe(
    "rlsd",
    "grpo+evidence_reweighting-kl",
    authors="justrl+evidence_reweighting(steps=60,source=current)+dual_clip",
    paper="arXiv:2604.03128",
    summary="rewards say in which direction a token moves, a teacher that knows the answer how far",
)
"""RLSD: self-distillation weighs what the verifier says (Yang et al., Self-Distilled RLVR, arXiv:2604.03128, Alg. 1).

    A'_it = A_i ( 1 - m + m clip( (pi_teacher(y_it) / pi_old(y_it))^sign(A_i), 1 - eps, 1 + eps ) )
    m = 0.5 in the first step, falling linearly to 0 over 50 steps;   eps = 0.2

On GRPO without KL. The teacher is the model with the answer in its prompt, task.teacher_prompt: rewards say in which
direction a token moves, the teacher how far.
Open: eq. 16 has no ratio to the old policy; here GRPO's, as in the code.
Left out, of the loop: their teacher is renewed every 20 steps; here it is the policy itself, or the starting model with
model.teacher=initial.
Variant authors (iie-ycx/RLSD): over 60 steps, the current policy's log-prob in the weight, clip_higher(high=0.28),
dual_clip(cap=3) and the mean over all tokens, as their script has it.
"""


@register
class GatedDistillation(Penalty):
    """Raises tokens that the teacher finds likelier than the policy, others softly less."""

    failure_modes = ("hard_problems", "credit")
    purpose = TeacherAdvantage.purpose
    reads = frozenset({"logp_teacher"})
    printed = "+ {coefficient:g} * g log p_teacher / p"
    explained = "g = sg[sigmoid({beta:g} log p_teacher / p)]"
    coefficient: float = parameter(0.01, "[0, inf)", "lambda, weight of the distillation in the loss", idle=0)
    beta: float = parameter(5.0, "(0, inf)", "sharpness of the gate")

    def penalty(self, rows: Prepared, logp: Tensor, entropy: Tensor | None) -> Tensor:
        gap = rows.require("logp_teacher", self.name) - logp
        return self.coefficient * (self.beta * gap.detach()).sigmoid() * gap


recipe(
    "sdar",
    "grpo+gated_distillation+kl(beta=0.01)",
    authors="sdar+dual_clip+token_mean(scope=microbatch)+kl(beta=0.01,clamp=20)+entropy_bonus",
    paper="arXiv:2605.15155",
    summary="GRPO, and tokens that a teacher with a better prompt endorses are raised",
    contribution=("gated_distillation",),
)
"""SDAR: gated self-distillation beside GRPO (Lu et al., Self-Distilled Agentic RL, arXiv:2605.15155).

    L = L_GRPO + 0.01 KL + lambda (1/N) sum_i 1/|y_i| sum_t g_it ( log pi_teacher(y_it) - log pi(y_it) )
    g_it = sg[ sigmoid( beta ( log pi_teacher(y_it) - log pi(y_it) ) ) ],   beta = 5, lambda = 0.01

The gate opens on tokens that a teacher with more in its prompt (in the paper skills, here task.teacher_prompt) finds
likelier than the policy; these are raised, and no token is lowered. Open: what of the gates by entropy and by both to
take; here the gap's, as in the code. lambda is that of their scripts; the weight of the KL is that of six of the nine,
and 0.001 in the three for search.
Variant authors (ZJU-REAL/SDAR@8b85c23 examples/sdar_trainer and verl's default configuration): dual_clip(cap=3),
kl(clamp=20), entropy_bonus(coefficient=0.001), means over the tokens of each micro-batch. Left out: the penalty of
invalid actions, which is in the reward.
"""
