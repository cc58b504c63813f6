"""Pass@k training (Chen et al., arXiv:2508.10751): the reward of k responses together is that of their best.

    rho = 1 - C(n-c, k) / C(n, k),   sigma = sqrt(rho (1 - rho)),   c of the group's n responses right
    A = (1 - rho) / (sigma + 1e-6) of the right,  (1 - rho - C(n-c-1, k-1) / C(n-1, k-1)) / (sigma + 1e-6) of the wrong

The mean advantage over all sets of k responses, in closed form. A group with more than n - k right ones has none,
though dynamic_sampling keeps it. Open: k, 4 in xtuner, and what is around the advantage; here a clip at 0.2 and the
mean over all tokens. Deviations: right is what is correct in full, whatever the reward, so that nothing that shapes
rewards goes with it (soft_overlong, kl_reward); a group of fewer than k responses takes all of them together, and one
of k or fewer has no advantage at all.
"""

import math
from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.groups import group_index, group_sum
from objectives.kinds import Advantage
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.parts.clip import Clip
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class PassAtK(Advantage):
    """Advantage of each response where k of them are right if one is."""

    name = "pass_at_k"
    paper = "arXiv:2508.10751"
    troubles = ("diversity", "hard_problems", "exploration")
    reads = frozenset({"correct", "group"})
    minimum_group = 2
    k: int = parameter(4, "[1, inf)", "responses that are rewarded together; the group's size if that is smaller")

    @property
    def learning_group(self) -> int:
        return self.k + 1

    def of(self, batch: TokenBatch) -> Tensor:
        right, values = batch.right(self.name), batch.require("correct", self.name)
        index, groups = group_index(batch.require("group", self.name))
        sizes = group_sum(torch.ones_like(index), index, groups).tolist()
        counts = group_sum(right.to(index), index, groups).tolist()
        of_group = values.new_tensor([self._of_group(n, c) for n, c in zip(sizes, counts, strict=True)]).reshape(-1, 2)
        return torch.where(right, of_group[index, 0], of_group[index, 1])

    def _of_group(self, n: int, c: int) -> tuple[float, float]:
        """The advantages of the right and of the wrong ones, where c of n are right."""
        k = min(self.k, n)
        failure = math.comb(n - c, k) / math.comb(n, k)
        deviation = math.sqrt(failure * (1 - failure)) + 1e-6
        with_wrong = math.comb(max(n - c - 1, 0), k - 1) / math.comb(n - 1, k - 1)
        return failure / deviation, (failure - with_wrong) / deviation if c < n else 0.0

    def formula(self) -> str:
        return f"A = mean over the group's sets of {self.k} of (pass@{self.k} - rho) / (sqrt(rho (1 - rho)) + 1e-6)"


recipe(
    "passk",
    paper="arXiv:2508.10751",
    summary="k responses are rewarded together if one of them is right",
    variants={"paper": (PassAtK(), TokenRatio(), Clip(), TokenMean(), SinglePass())},
    contribution=("pass_at_k",),
    doc=__doc__,
)
