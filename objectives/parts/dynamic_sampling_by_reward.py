"""Dynamic sampling (arXiv:2503.14476) for several rewards: a group stays where any of them differs, as graded.

An objective that reads rewards one by one, as gdpo does, learns from such a group though all its answers are right.
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.groups import group_index, group_is_constant
from objectives.kinds import Select
from objectives.lazy import Tensor, torch
from objectives.zoo import register


@register
@dataclass(frozen=True)
class DynamicSamplingByReward(Select):
    """Drops groups whose responses earned the same in each reward and samples further prompts in their place."""

    name = "dynamic_sampling_by_reward"
    paper = "arXiv:2503.14476"
    troubles = ("dead_groups", "zero_loss")
    reads = frozenset({"rewards", "group"})
    refills = True

    def selects(self, batch: TokenBatch) -> Tensor:
        index, groups = group_index(batch.require("group", self.name))
        columns = batch.require("rewards", self.name).unbind(1)
        return ~torch.stack([group_is_constant(column, index, groups) for column in columns]).all(0)

    def formula(self) -> str:
        return "only groups in which some R_k differs, refilled"
