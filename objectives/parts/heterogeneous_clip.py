"""HAPO's clip (Liu et al., arXiv:2509.16591, part D).

    lower bound 1 - low (1 - alpha min(h, 0)),  upper bound 1 + high (1 + alpha max(h, 0))

h in [-1, 1] says how unsure a token is (entropy_height.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from objectives.batch import TokenBatch, scope_reads
from objectives.kinds import Bounds, Modifier
from objectives.parts.entropy_height import ByEntropy
from objectives.zoo import register


@register
@dataclass(frozen=True)
class HeterogeneousClip(ByEntropy, Modifier):
    """Lets sure tokens fall further and unsure ones rise further."""

    name = "heterogeneous_clip"
    troubles = ("exploration",)
    sets = frozenset({"low", "high"})

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"entropy"}) | scope_reads(self.scope)

    def modify(self, bounds: Bounds, batch: TokenBatch) -> Bounds:
        low, high = self.widths(self.height(batch))
        return replace(bounds, low=low, high=high)

    def numbers(self) -> Mapping[str, str]:
        low, high = self.written_bounds()
        return {"low": low, "high": high}

    def formula(self) -> str:
        return "clip bounds {low} and {high}, ".format(**self.numbers()) + self.where()
