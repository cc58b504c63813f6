"""REINFORCE (Williams, Simple Statistical Gradient-Following Algorithms, Machine Learning 8, 1992).

    J = (1/N) sum_i R_i sum_t log pi(y_it)

No baseline, no ratio, no clip; right for one update per rollout only. Groups of equal rewards train too, which
dynamic_sampling would take away. Added to another objective it brings the surrogate and leaves the advantage.
OpenRLHF's estimator of that name is reinforce_pp's advantage.
"""

from dataclasses import dataclass

from objectives.kinds import Advantage
from objectives.lazy import Tensor
from objectives.parts.reinforce import Reinforce
from objectives.parts.seq_sum import SeqSum
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class RawReward(Advantage):
    """The reward as it is, without a baseline."""

    name = "raw_reward"
    paper = Reinforce.paper

    @property
    def centred(self) -> bool:
        return False

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        return reward

    def formula(self) -> str:
        return "A = R"


recipe(
    "reinforce",
    paper=Reinforce.paper,
    summary="reward times the gradient of the response's log-prob; no baseline, no ratio",
    variants={"paper": (RawReward(), TokenRatio(), Reinforce(), SeqSum(), SinglePass())},
    contribution=("reinforce",),
    doc=__doc__,
)
