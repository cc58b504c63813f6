"""The schedule of nearly all methods."""

from dataclasses import dataclass

from objectives.batch import Prepared
from objectives.kinds import Schedule
from objectives.zoo import register


@register
@dataclass(frozen=True)
class SinglePass(Schedule):
    """One update pass over the rollouts."""

    name = "single_pass"
    paper = "arXiv:1707.06347"

    def passes(self, batch: Prepared) -> tuple[Prepared, ...]:
        return (batch,)

    def formula(self) -> str:
        return "one pass over the mini-batches"
