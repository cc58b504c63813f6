"""Dynamic sampling of DAPO (Yu et al., arXiv:2503.14476, eq. 11): 0 < #correct < G."""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.groups import group_index, group_is_constant
from objectives.kinds import Select
from objectives.lazy import Tensor
from objectives.zoo import register


@register
@dataclass(frozen=True)
class DynamicSampling(Select):
    """Drops groups whose responses are all correct or all wrong and samples further prompts in their place."""

    name = "dynamic_sampling"
    paper = "arXiv:2503.14476"
    troubles = ("dead_groups", "zero_loss")
    reads = frozenset({"correct", "group"})
    refills = True

    def selects(self, batch: TokenBatch) -> Tensor:
        index, groups = group_index(batch.require("group", self.name))
        return ~group_is_constant(batch.require("correct", self.name), index, groups)

    def formula(self) -> str:
        return "only groups with 0 < #correct < G, refilled"
