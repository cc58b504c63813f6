"""DAPO's token-level loss (Yu et al., arXiv:2503.14476, eq. 8).

Open in the paper: over what the mean runs. Its formula says the prompt (scope=prompt); its code says the micro-batch
(scope=microbatch, each weighed by its share of the responses); the default here is the mini-batch, as in later
frameworks.
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch, scope_reads
from objectives.groups import group_index, group_sum
from objectives.kinds import Aggregate
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class TokenMean(Aggregate):
    """Mean over all counted tokens of the mini-batch, of each prompt (then over prompts), or of each micro-batch."""

    name = "token_mean"
    paper = "arXiv:2503.14476"
    troubles = ("length_growth",)
    scope: str = parameter("minibatch", ("minibatch", "prompt", "microbatch"), "what the mean runs over")

    @property
    def needs(self) -> frozenset[str]:
        return scope_reads(self.scope)

    def coefficients(self, batch: TokenBatch, counted: Tensor) -> Tensor:
        pool, pools = self._pools(batch)
        tokens = group_sum(counted.sum(1), pool, pools).clamp(min=1).to(batch.require("advantage", self.name))
        responses = group_sum(batch.mask.any(1).long(), pool, pools)
        share = responses > 0 if self.scope == "prompt" else responses
        return (share / (share.sum().clamp(min=1) * tokens))[pool][:, None].expand(batch.mask.shape)

    def _pools(self, batch: TokenBatch) -> tuple[Tensor, int]:
        """[N] the pool of each row, and how many pools there are."""
        if self.scope == "minibatch":
            return torch.zeros(len(batch.mask), dtype=torch.long, device=batch.mask.device), 1
        return group_index(batch.require("group" if self.scope == "prompt" else "micro_batch", self.name))

    def formula(self) -> str:
        where = {"minibatch": "", "prompt": " of each prompt", "microbatch": " of each micro-batch"}[self.scope]
        return f"L = mean over the counted tokens{where}"
