"""DG: the delightful policy gradient (arXiv:2603.14608, as JeanKaddour/tpo has it).

    J = (1/N) sum_i sum_t w_it A_i log pi(y_it),   w_it = sigmoid( A_i (-log pi(y_it)) / eta ),   A_i = R_i - mean_group

A rare token counts fully where it was right and hardly at all where it was wrong; a sure one counts half. w is not
differentiated and reads the policy as it is now. No ratio, no clip: right for one update per rollout (several diverge,
says the code). Open: the baseline; theirs is the mean over the candidates of a prompt.
"""

from dataclasses import dataclass

from objectives.batch import Prepared
from objectives.kinds import Weight
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.parts.group_center import GroupCenter
from objectives.parts.reinforce import Reinforce
from objectives.parts.seq_sum import SeqSum
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class Delight(Weight):
    """Weighs a token by how welcome a surprise it is."""

    name = "delight"
    paper = "arXiv:2603.14608"
    troubles = ("exploration",)
    reads = frozenset({"logp"})
    planned = True
    eta: float = parameter(1.0, "(0, inf)", "temperature of the sigmoid")

    def weight(self, batch: Prepared) -> Tensor:
        surprisal = -batch.require("logp", self.name)
        return torch.sigmoid(batch.advantage * surprisal / self.eta)

    def formula(self) -> str:
        return f"A *= sigmoid(-A log p / {self.eta:g})"


recipe(
    "dg",
    paper="arXiv:2603.14608",
    summary="policy gradient weighed by how welcome a surprise each token is",
    variants={"paper": (GroupCenter(), Delight(), TokenRatio(), Reinforce(), SeqSum(), SinglePass())},
    contribution=("delight",),
    doc=__doc__,
)
