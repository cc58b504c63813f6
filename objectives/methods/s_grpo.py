"""S-GRPO (Lee and Tong, Token-Efficient RL for LLM Reasoning, arXiv:2504.20834), as a public review quotes it.

    J = 1/|G| sum_i 1/|T_i| sum_{t in T_i} pi / sg[pi] A_it
    t in T_i:  always if t < alpha,  else by lot with probability P while |T_i| < k

The policy gradient of a random part of the tokens, which alone are in the denominator. It is right for one update per
rollout only. Here it saves neither time nor memory: the log-prob of every token is calculated.
P is asked for: notes on the paper say "30 to 50 % of the tokens". Open: alpha and k, which are ours (0, no limit); beta
of the paper's penalty on the KL to the reference, which is left out, `+kl` adds one; whether advantages are divided by
the deviation, here grpo's.
Deviations: tokens are drawn by a number made of the step, their group, row and position, so that neither the order of
groups nor processes and cuts have a say, and several passes draw the same; a response of which nothing is drawn counts
in |G|, where the equation divides by zero.
"""

from dataclasses import dataclass

from objectives.batch import Prepared
from objectives.kinds import Mask
from objectives.lazy import Tensor
from objectives.order import uniform_of
from objectives.part import ASKED, parameter
from objectives.parts.group_norm import GroupNorm
from objectives.parts.reinforce import Reinforce
from objectives.parts.seq_mean import SeqMean
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class RandomTokens(Mask):
    """Keeps the first tokens of a response and a random share of the others."""

    name = "random_tokens"
    paper = "arXiv:2504.20834"
    share: float = parameter(ASKED, "(0, 1]", "P, probability that a token is kept")
    first: int = parameter(0, "[0, inf)", "alpha, tokens at a response's start that are always kept")
    limit: int | None = parameter(None, "[1, inf)", "k, tokens of a response after which none is drawn; none: no limit")
    needs = frozenset({"lot"})

    def keeps(self, batch: Prepared) -> Tensor:
        always = batch.mask & (batch.mask.cumsum(1) <= self.first)
        kept = always | (batch.mask & (uniform_of(batch.require("lot", self.name)) < self.share))
        return kept if self.limit is None else always | (kept & (kept.cumsum(1) <= self.limit))

    def formula(self) -> str:
        draw = f"(lot < {self.share:g} and n < {self.limit})" if self.limit else f"lot < {self.share:g}"
        return f"(t < {self.first} or {draw})" if self.first else draw

    def where(self) -> str:
        names = ["lot = a number from 0 to 1 drawn for the token"]
        names += ["t = tokens of the response before it"] if self.first else []
        names += ["n = tokens of the response before it that this draw keeps"] if self.limit else []
        return "; ".join(names)


recipe(
    "s_grpo",
    paper="arXiv:2504.20834",
    summary="the policy gradient of a random part of each response's tokens",
    variants={"paper": (GroupNorm(), TokenRatio(), Reinforce(), RandomTokens(), SeqMean(), SinglePass())},
    contribution=("random_tokens",),
    doc=__doc__,
)
