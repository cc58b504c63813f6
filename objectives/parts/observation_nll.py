"""Cross entropy on what the environment wrote (ECHO: Shrivastava et al., arXiv:2605.24517).

    + alpha (1/M) sum over the M observed tokens of -log pi(o)

The policy learns what its own actions lead to, from responses of any reward. Observed is what the environment, or the
chat template around it, wrote behind the policy's first token; M counts the mini-batch's, so that neither term dilutes
the other. So PrimeIntellect-ai/prime-rl@559b447 has it (src/prime_rl/trainer/rl/loss.py:246-259, 394;
orchestrator/algo/echo.py:41-90). It leaves the template's tokens out where its renderer knows them, and no batch here
does. It is the one part whose gradient is on tokens that the policy did not choose.
"""

from dataclasses import dataclass
from typing import ClassVar

from objectives.batch import Prepared
from objectives.kinds import Aggregate, Penalty
from objectives.lazy import Tensor
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class ObservationNLL(Penalty):
    """Raises the tokens that the environment wrote."""

    name = "observation_nll"
    paper = "arXiv:2605.24517"
    troubles = ("hard_problems", "dead_groups")
    reads = frozenset({"writer"})
    learns_observations: ClassVar[bool] = True
    alpha: float = parameter(0.05, "[0, inf)", "weight of the observations' cross entropy in the loss")

    def coefficients(self, batch: Prepared, aggregate: Aggregate) -> Tensor:
        observed = (batch.observed(self.name) & batch.selected[:, None]).to(batch.advantage.dtype)
        return self.alpha * observed / observed.sum().clamp(min=1)

    def penalty(self, rows: Prepared, logp: Tensor, entropy: Tensor | None) -> Tensor:
        return -logp

    def formula(self) -> str:
        return f"- {self.alpha:g} * mean over observed tokens of log p"

    def where(self) -> str:
        return "observed = written by the environment behind the policy's first token"
