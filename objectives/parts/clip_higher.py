"""Clip-higher of DAPO (Yu et al., arXiv:2503.14476, section 3.1): the upper bound is a number of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from objectives.batch import TokenBatch
from objectives.kinds import Bounds, Modifier
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class ClipHigher(Modifier):
    """Raises the upper clip bound, so that unlikely tokens of good responses can grow further."""

    name = "clip_higher"
    paper = "arXiv:2503.14476"
    troubles = ("exploration", "entropy_collapse")
    sets = frozenset({"high"})
    high: float = parameter(0.28, "[0, inf)", "the ratio is clipped to 1 + high above")

    def modify(self, bounds: Bounds, batch: TokenBatch) -> Bounds:
        return replace(bounds, high=self.high)

    def numbers(self) -> Mapping[str, str]:
        return {"high": f"{1 + self.high:g}"}

    def formula(self) -> str:
        return f"upper clip bound {1 + self.high:g}"
