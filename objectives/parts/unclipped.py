"""The importance-weighted objective without a clip: the surrogate that PPO's clip bounds.

l_it = -r_it A_it
"""

from collections.abc import Mapping
from dataclasses import dataclass

from objectives.kinds import Bounds, Surrogate
from objectives.lazy import Tensor
from objectives.zoo import register


@register
@dataclass(frozen=True)
class Unclipped(Surrogate):
    """Ratio times advantage, and nothing that bounds it."""

    name = "unclipped"
    paper = "arXiv:1707.06347"

    def loss(
        self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Mapping[str, Tensor]
    ) -> Tensor:
        return -ratio * advantage

    def formula(self) -> str:
        return "r A"
