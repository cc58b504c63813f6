"""The policy gradient without an importance ratio (Williams, Machine Learning 8, 1992).

    l_it = -A_it log pi(y_it)

Right for one update per rollout only: it does not know that the policy has moved since. Deviations: the loss is
-A exp(log pi - sg[log pi]), of the same gradient and a value that can be compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from objectives.kinds import Bounds, Surrogate
from objectives.lazy import Tensor
from objectives.zoo import register


@register
@dataclass(frozen=True)
class Reinforce(Surrogate):
    """Log-prob times advantage, whatever policy sampled."""

    name = "reinforce"
    paper = "doi:10.1007/BF00992696"
    reads_ratio = False

    def loss(
        self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Mapping[str, Tensor]
    ) -> Tensor:
        return -advantage * (logp - logp.detach()).exp()

    def formula(self) -> str:
        return "A log p"
