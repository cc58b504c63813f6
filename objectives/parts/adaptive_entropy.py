"""An entropy bonus whose weight follows a target entropy (Skywork-OR1, arXiv:2505.22312).

    L -= alpha_k mean of H_it,   alpha_k = c_k while e_k < target, 0 otherwise
    c_{k+1} = c_k + step where e_k < target, c_k - step elsewhere, within 0 .. most

e_k is the mean entropy of the rollouts of step k, c_0 = start. measured=surprisal takes the mean of -log pi_old, which
has the same expectation; delayed=true looks at e_{k-1} to switch the bonus on, as the authors' code does.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from objectives.batch import Prepared
from objectives.errors import ObjectiveError
from objectives.kinds import Penalty
from objectives.lazy import Tensor
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class AdaptiveEntropy(Penalty):
    """Adds the policy's entropy to the objective while it is below a target, with more weight the longer it is so."""

    name = "adaptive_entropy"
    paper = "arXiv:2505.22312"
    troubles = ("entropy_collapse",)
    needs_entropy_gradient = True
    target_entropy: float = parameter(0.2, "(0, inf)", "entropy in nats below which the bonus is on")
    start: float = parameter(0.0, "[0, inf)", "c, weight of the entropy in the first step")
    step: float = parameter(1e-4, "[0, inf)", "by how much c moves per step")
    most: float = parameter(5e-3, "[0, inf)", "largest c")
    measured: str = parameter("entropy", ("entropy", "surprisal"), "what is compared with the target")
    delayed: bool = parameter(False, None, "whether the last step's entropy switches the bonus on")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"entropy_old" if self.measured == "entropy" else "logp_old"})

    def control(self, batch: Prepared, state: Mapping[str, float]) -> Mapping[str, float]:
        weight, last = state.get("weight", self.start), state.get("entropy", -math.inf)
        if state:
            step = self.step if last < self.target_entropy else -self.step
            weight = min(max(weight + step, 0.0), self.most)
        entropy = self._entropy(batch)
        entropy = entropy if math.isfinite(entropy) else state.get("entropy", self.target_entropy)
        is_on = (last if self.delayed else entropy) < self.target_entropy
        return {"entropy": entropy, "weight": weight, "coefficient": weight * is_on}

    def _entropy(self, batch: Prepared) -> float:
        """The mean over the tokens of the rollouts; nan if there are none."""
        if self.measured == "entropy":
            return batch.mean("entropy_old", self.name)
        return -batch.mean("logp_old", self.name)

    def penalty(self, rows: Prepared, logp: Tensor, entropy: Tensor | None) -> Tensor:
        if entropy is None:
            raise ObjectiveError(f"{self.name}: the loss was called without the policy's entropy")
        return -rows.state_of(self.name)["coefficient"] * entropy

    def formula(self) -> str:
        return "- alpha H"

    def where(self) -> str:
        entropy = "H_old" if self.measured == "entropy" else "-log p_old"
        switch = " a step ago" if self.delayed else ""
        return (
            f"alpha = {self.start:g} while the mean of {entropy}{switch} < {self.target_entropy:g}, 0 otherwise, "
            f"the number moved by {self.step:g} a step, up while it was below, down above, within 0 .. {self.most:g}"
        )
