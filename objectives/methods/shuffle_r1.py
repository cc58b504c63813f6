"""Shuffle-R1's pairwise sampling (Zhu et al., arXiv:2508.05612, as xiaomi-research/shuffle-r1 has it).

    A_i = (R_i - mean_group) / (std_group + 1e-6)
    the responses of a group, sorted by A, make pairs: the best with the worst, the second with the last but one, ...
    the first half of the pairs is trained on

A group that is half right keeps right and wrong answers in equal numbers; of the middle, which teaches little, nothing
is left. The advantages are those of the whole group.
Deviations: ties are broken by lot, by the order of the rows in their code (other responses in 31 of 40 random batches);
a middle one of an odd number is in no pair, their code refuses it. Left out: the reshuffle, which fills a step's
mini-batches with pairs drawn by |A_1| + |A_2|, eight times. A draw has some rows several times and others never, but a
row of a batch is there once, and no weight of its advantage would change the denominators with it.
Variant authors: token mean per micro-batch, weighted by its responses.
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.groups import group_index
from objectives.kinds import Select
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.parts.clip import Clip
from objectives.parts.group_norm import GroupNorm
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class ExtremePairs(Select):
    """Trains on the best and the worst responses of a group, in equal numbers."""

    name = "extreme_pairs"
    paper = "arXiv:2508.05612"
    troubles = ("mixed_difficulty",)
    reads = frozenset({"reward", "group", "lot"})
    share: float = parameter(0.5, "(0, 1]", "share of the pairs that is trained on, rounded down")

    @property
    def learning_group(self) -> int:
        return 2 * int(1 / self.share + 1 - 1e-9)

    def selects(self, batch: TokenBatch) -> Tensor:
        reward, lot = batch.require("reward", self.name), _lot_of_row(batch)
        index, groups = group_index(batch.require("group", self.name))
        selected = torch.zeros_like(batch.mask[:, 0])
        for number in range(groups):
            rows = (index == number).nonzero()[:, 0]
            rows = rows[lot[rows].argsort()]
            ranked = rows[reward[rows].argsort(descending=True, stable=True)]
            pairs = int(len(rows) // 2 * self.share + 1e-9)
            selected[ranked[:pairs]] = True
            selected[ranked[len(rows) - pairs :]] = True
        return selected

    def formula(self) -> str:
        return f"only {self.share:g} of the pairs of best and worst R in the group, ties by lot"


def _lot_of_row(batch: TokenBatch) -> Tensor:
    """[N] the smallest lot of a response's tokens."""
    last = torch.iinfo(torch.int64).max
    lot = batch.require("lot", ExtremePairs.name).masked_fill(~batch.mask, last)
    return torch.cat([lot, lot.new_full((len(lot), 1), last)], 1).amin(1)


_SHARED = (ExtremePairs(), GroupNorm(), TokenRatio(), Clip(), SinglePass())

recipe(
    "shuffle_r1",
    paper="arXiv:2508.05612",
    summary="the best and the worst of a group in equal numbers; the middle is left out",
    variants={"paper": (*_SHARED, TokenMean()), "authors": (*_SHARED, TokenMean(scope="microbatch"))},
    contribution=("extreme_pairs",),
    doc=__doc__,
)
