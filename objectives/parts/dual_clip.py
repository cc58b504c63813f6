"""Dual clip (Ye et al., arXiv:1912.09729, eq. 5): the loss of a negative advantage is bounded.

l_it = -max( min( r A, clip(r) A ), cap A )   where A < 0
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from objectives.batch import TokenBatch
from objectives.kinds import Bounds, Modifier
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class DualClip(Modifier):
    """Bounds the loss of a negative advantage: a ratio above `cap` has no gradient."""

    name = "dual_clip"
    paper = "arXiv:1912.09729"
    troubles = ("many_epochs",)
    sets = frozenset({"cap"})
    cap: float = parameter(3.0, "(1, inf)", "largest ratio that counts where the advantage is negative")

    def modify(self, bounds: Bounds, batch: TokenBatch) -> Bounds:
        return replace(bounds, cap=self.cap)

    def numbers(self) -> Mapping[str, str]:
        return {"cap": f"{self.cap:g}"}

    def formula(self) -> str:
        return f"max(min(r A, clip(r) A), {self.cap:g} A) where A < 0"
