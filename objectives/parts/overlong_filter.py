"""Overlong filtering of DAPO (Yu et al., arXiv:2503.14476, section 3.4).

Open in the paper: what the loss then divides by; here, the tokens and responses that are left (TRL counts all rows, but
only the tokens that are left).
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.kinds import Select
from objectives.lazy import Tensor
from objectives.zoo import register


@register
@dataclass(frozen=True)
class OverlongFilter(Select):
    """Leaves truncated responses out of the loss; their rewards still count in the group's statistics."""

    name = "overlong_filter"
    paper = "arXiv:2503.14476"
    troubles = ("truncation",)
    reads = frozenset({"truncated"})

    def selects(self, batch: TokenBatch) -> Tensor:
        return ~batch.require("truncated", self.name)

    def formula(self) -> str:
        return "without truncated responses"
