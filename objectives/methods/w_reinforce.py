"""W-REINFORCE, PSR and NSR (Zhu et al., The Surprising Effectiveness of Negative Reinforcement, arXiv:2506.01347).

    A = 0.1 of right answers, -1 of wrong ones;  clip(0.2), mean over all tokens

Variants psr and nsr learn from right answers (A = 1), or from wrong ones, alone; the others leave the denominators too.
No baseline: groups of one kind train as well, which dynamic_sampling would take away. The paper writes plain REINFORCE,
its code runs PPO's clip. Variant authors: the mean is that of each micro-batch, and an entropy bonus of 0.001, their
configuration's default that no script overrides; psr_authors and nsr_authors likewise.
Their return starts anew behind a tool's tokens, so that of a right answer only what comes after the last of them is
raised: 16 of 20 batches that have some differ, by 0.9 of the largest push for psr_authors, by 1 % for authors (median).
Deviations: right is what is correct in full, whatever the reward, so that nothing that shapes rewards goes with it.
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.kinds import Advantage
from objectives.lazy import Tensor, torch
from objectives.part import Part, parameter
from objectives.parts.answer_filter import AnswerFilter
from objectives.parts.clip import Clip
from objectives.parts.entropy_bonus import EntropyBonus
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register

PAPER = "arXiv:2506.01347"


@register
@dataclass(frozen=True)
class SignedReward(Advantage):
    """One advantage for right answers, one for wrong ones, and no baseline."""

    name = "signed_reward"
    paper = PAPER
    troubles = ("diversity",)
    reads = frozenset({"correct"})
    right: float = parameter(0.1, "[0, inf)", "advantage of right answers")
    wrong: float = parameter(-1.0, "(-inf, 0]", "advantage of wrong answers")

    @property
    def centred(self) -> bool:
        return False

    def of(self, batch: TokenBatch) -> Tensor:
        values = torch.full_like(batch.require("correct", self.name), self.wrong)
        return values.masked_fill(batch.right(self.name), self.right)

    def formula(self) -> str:
        return f"A = {self.right:g} where right, {self.wrong:g} where wrong"


_SHARED: tuple[Part, ...] = (TokenRatio(), Clip(), SinglePass())
_AUTHORS = (*_SHARED, TokenMean(scope="microbatch"), EntropyBonus(coefficient=0.001))

recipe(
    "w_reinforce",
    paper=PAPER,
    summary="wrong answers weigh ten times as much as right ones; no baseline",
    variants={
        "paper": (*_SHARED, SignedReward(), AnswerFilter(keep="all"), TokenMean()),
        "psr": (*_SHARED, SignedReward(right=1.0), AnswerFilter(keep="right"), TokenMean()),
        "nsr": (*_SHARED, SignedReward(), AnswerFilter(keep="wrong"), TokenMean()),
        "authors": (*_AUTHORS, SignedReward(), AnswerFilter(keep="all")),
        "psr_authors": (*_AUTHORS, SignedReward(right=1.0), AnswerFilter(keep="right")),
        "nsr_authors": (*_AUTHORS, SignedReward(), AnswerFilter(keep="wrong")),
    },
    contribution=("signed_reward", "answer_filter"),
    doc=__doc__,
)
