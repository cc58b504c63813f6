"""Credit per turn by equal states (GiGPO: Feng et al., Group-in-Group Policy Optimization, arXiv:2505.10978, eq. 5-8).

    A_it <- A_it + omega (G_k - mean) / (std + eps),   G_k = r_k + gamma G_{k+1},   t in turn k

Mean and std (ddof 1) are those of all turns of the group that began in the same state; a turn whose state has no other
turn gets 0. The rewards r_k of a response's turns add up to its reward: where a task rewards the whole episode alone,
that is the reward of its last turn. `scaled=false` leaves the std out. Where states and rewards come from is in
docs/guides/turns.md.
Authors' code: langfengQ/DrMAS@19c632b verl/trainer/ppo/core_algos.py:128-447, by the paper's first author; its
verl-agent could not be read. Left out: states that are merely similar.
Deviation: turns of responses that are not trained on are no part of mean and std.
"""

from dataclasses import dataclass

from objectives.batch import Prepared
from objectives.groups import group_centred, group_deviation, group_index
from objectives.kinds import Weight
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class TurnAdvantage(Weight):
    """Adds to a token's advantage how much better its turn went on than others from the same state."""

    name = "turn_advantage"
    paper = "arXiv:2505.10978"
    troubles = ("credit",)
    additive = True
    reads = frozenset({"group", "turn", "turn_reward", "turn_state"})
    omega: float = parameter(1.0, "[0, inf)", "weight of a turn's advantage beside the response's")
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

    def where(self) -> str:
        return f"G = sum over the turns from the token's on of their reward, discounted by {self.gamma:g}"


def _of_turns(values: Tensor, turn: Tensor, mask: Tensor, count: int) -> Tensor:
    """[N, T] values that the tokens of a turn share -> [N, K] of each turn; 0 of turns without tokens."""
    beyond = turn.where(mask, count)
    result = values.new_zeros(len(values), count + 1)
    return result.scatter_reduce(1, beyond, values, "amax", include_self=False)[:, :count]
