"""Positive or negative samples alone (Zhu et al., arXiv:2506.01347): right answers, or wrong ones, are left out.

Whoever is left out leaves the denominators as well. The advantages of the others are those of the whole group.
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.kinds import Select
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class AnswerFilter(Select):
    """Trains on right answers, or on wrong ones, alone."""

    name = "answer_filter"
    paper = "arXiv:2506.01347"
    reads = frozenset({"correct"})
    keep: str = parameter("right", ("right", "wrong", "all"), "which answers are trained on")

    def selects(self, batch: TokenBatch) -> Tensor:
        right = batch.right(self.name)
        return {"right": right, "wrong": ~right, "all": torch.ones_like(right)}[self.keep]

    def formula(self) -> str:
        return f"{self.keep} answers only" if self.keep != "all" else "all answers"
