"""Responses of several turns with an environment."""

from typing import ClassVar

from objectives.batch import Prepared
from objectives.ops import Tensor, group_centred, group_deviation, group_index, torch
from objectives.part import Aggregate, Penalty, Weight, parameter
from objectives.recipes import recipe
from objectives.zoo import register


@register
class TurnAdvantage(Weight):
    """Adds to a token's advantage how much better its turn went on than others from the same state.

    Credit per turn by equal states (GiGPO: Feng et al., Group-in-Group Policy Optimization, arXiv:2505.10978, eq. 5-8).

        A_it <- A_it + omega (G_k - mean) / (std + eps),   G_k = r_k + gamma G_{k+1},   t in turn k

    Mean and std (ddof 1) are those of all turns of the group that began in the same state; a turn whose state has no
    other turn gets 0. The rewards r_k of a response's turns add up to its reward: where a task rewards the whole
    episode alone, that is the reward of its last turn. `scaled=false` leaves the std out. Where states and rewards come
    from is in docs/guides/turns.md. Authors' code: langfengQ/DrMAS@19c632b verl/trainer/ppo/core_algos.py:128-447, by
    the paper's first author; its verl-agent could not be read. Left out: states that are merely similar.
    Deviation: turns of responses that are not trained on are no part of mean and std.
    """

    failure_modes = ("credit",)
    additive = True
    reads = frozenset({"group", "turn", "turn_reward", "turn_state"})
    explained = "G = sum over the turns from the token's on of their reward, discounted by {gamma:g}"
    omega: float = parameter(1.0, "[0, inf)", "weight of a turn's advantage beside the response's", idle=0)
    gamma: float = parameter(0.95, "[0, 1]", "discount of the rewards of later turns")
    scaled: bool = parameter(True, None, "whether a turn's advantage is divided by its state's standard deviation")
    eps: float = parameter(1e-6, "[0, inf)", "added to the standard deviation")

    def weight(self, batch: Prepared) -> Tensor:
        turn = batch.require("turn", self.name).where(batch.mask, 0)
        count = int(turn.max()) + 1 if turn.numel() else 1
        reward, state, is_there = (
            _of_turns(values, turn, batch.mask, count)
            for values in (
                batch.require("turn_reward", self.name),
                batch.require("turn_state", self.name),
                batch.mask.long(),
            )
        )
        rows, places = is_there.nonzero(as_tuple=True)
        returns = self._returns(reward, is_there > 0)[rows, places]
        group, state = batch.require("group", self.name)[rows], state[rows, places]
        advantage = torch.zeros_like(reward)
        advantage[rows, places] = self._advantage(returns, group, state)
        return torch.where(batch.mask, self.omega * advantage.gather(1, turn), 0.0)

    def _returns(self, reward: Tensor, is_there: Tensor) -> Tensor:
        """[N, K] rewards of turns, and which there are -> discounted returns from each turn on."""
        returns, later = torch.zeros_like(reward), torch.zeros_like(reward[:, 0])
        for place in reversed(range(reward.shape[1])):
            later = torch.where(is_there[:, place], reward[:, place] + self.gamma * later, later)
            returns[:, place] = later
        return returns

    def _advantage(self, returns: Tensor, group: Tensor, state: Tensor) -> Tensor:
        """[M] returns of turns, with the group and the state of each -> [M] advantages."""
        of_group, (of_state, states) = group_index(group)[0], group_index(state)
        index, count = group_index(of_group * states + of_state)
        centred = group_centred(returns, index, count)
        if not self.scaled:
            return centred
        deviation = group_deviation(centred, index, count)
        return torch.where(centred == 0, 0.0, centred / (deviation + self.eps)[index])

    def formula(self) -> str:
        scale = f" / (std + {self.eps:g})" if self.scaled else ""
        return f"A += {self.omega:g} * (G - mean){scale} over the turns of the group from the same state"


def _of_turns(values: Tensor, turn: Tensor, mask: Tensor, count: int) -> Tensor:
    """[N, T] values that the tokens of a turn share -> [N, K] of each turn; 0 of turns without tokens."""
    beyond = turn.where(mask, count)
    result = values.new_zeros(len(values), count + 1)
    return result.scatter_reduce(1, beyond, values, "amax", include_self=False)[:, :count]


recipe(
    "gigpo",
    "grpo+turn_advantage+token_mean+kl(beta=0.01)",
    unscaled="gigpo(scaled=false)+group_center",
    authors="gigpo+dual_clip+token_mean(scope=microbatch)-kl",
    paper="arXiv:2505.10978",
    summary="GRPO, and turns that begin in equal states are compared with each other",
    contribution=("turn_advantage",),
)
"""GiGPO: GRPO's advantage of the episode, and one of each turn (Feng et al., arXiv:2505.10978, eq. 3-9).

    A_it = (R_i - mean_group) / std_group + omega (G_k - mean_state) / std_state,   omega = 1, gamma = 0.95

States and rewards of turns are those of `turn_advantage`. Variant unscaled: both without the std, the paper's
F_norm = 1. Open: over what the tokens of a turn are averaged; here over all tokens, as in the code.
Variant authors (langfengQ/DrMAS@19c632b verl/trainer/ppo/core_algos.py:128-447, 826-887; its examples/gigpo_trainer):
dual_clip(cap=3), no KL, means over the tokens of each micro-batch, which has turns as rows. Their script for search
leaves the configuration's entropy bonus of 0.001 on; +entropy_bonus adds it. Left out, none of it in the loss: states
that are merely similar, statistics per agent, the penalty of invalid actions.
"""


@register
class ObservationNLL(Penalty):
    """Raises the tokens that the environment wrote.

    Cross entropy on what the environment wrote (ECHO: Shrivastava et al., arXiv:2605.24517).

        + alpha (1/M) sum over the M observed tokens of -log pi(o)

    The policy learns what its own actions lead to, from responses of any reward. Observed is what the environment, or
    the chat template around it, wrote behind the policy's first token; M counts the mini-batch's, so that neither term
    dilutes the other. So PrimeIntellect-ai/prime-rl@559b447 has it (src/prime_rl/trainer/rl/loss.py:246-259, 394;
    orchestrator/algo/echo.py:41-90). It leaves the template's tokens out where its renderer knows them, and no batch
    here does. It is the one part whose gradient is on tokens that the policy did not choose.
    """

    failure_modes = ("hard_problems", "dead_groups")
    reads = frozenset({"writer"})
    printed = "- {alpha:g} * mean over observed tokens of log p"
    explained = "observed = written by the environment behind the policy's first token"
    learns_observations: ClassVar[bool] = True
    alpha: float = parameter(0.05, "[0, inf)", "weight of the observations' cross entropy in the loss", idle=0)

    def coefficients(self, batch: Prepared, aggregate: Aggregate) -> Tensor:
        observed = (batch.observed(self.name) & batch.require("selected", self.name)[:, None]).to(batch.advantage.dtype)
        return self.alpha * observed / observed.sum().clamp(min=1)

    def penalty(self, rows: Prepared, logp: Tensor, entropy: Tensor | None) -> Tensor:
        return -logp


recipe(
    "echo",
    "grpo+observation_nll",
    prime_rl="dppo(variant=prime_rl)+observation_nll(alpha=0.1)",
    paper="arXiv:2605.24517",
    summary="GRPO, and the policy learns to predict what the environment answers",
)
"""ECHO: a cross entropy on what the environment wrote beside GRPO (Shrivastava et al., arXiv:2605.24517).

    L = L_GRPO + lambda mean over observed tokens of -log pi(o),   lambda = 0.05

What the terminal answers teaches the policy what its actions lead to, also where all responses of a group fail. Open:
GRPO's own settings, and what the cross entropy is divided by; here grpo's, and all observed tokens of the mini-batch.
Variant prime_rl: its default loss (dppo's variant of that name; observations in responses of zero advantage stay), and
alpha = 0.1 (PrimeIntellect-ai/prime-rl@559b447 src/prime_rl/trainer/rl/loss.py:109-161, 246-259, 394;
docs/algorithms.md:77).
Left out: observations that warn, tokens chosen by the role of their message.
"""
