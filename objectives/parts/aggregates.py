"""What a token's loss is divided by."""

from objectives.batch import TokenBatch
from objectives.kinds import Aggregate
from objectives.lazy import Tensor, torch
from objectives.ops import group_index, group_sum
from objectives.part import parameter
from objectives.zoo import register


@register
class SeqMean(Aggregate):
    """Mean over the tokens of each response, then over responses.

    GRPO's denominators (Shao et al., arXiv:2402.03300, eq. 3).
    """

    name = "seq_mean"
    paper = "arXiv:2402.03300"

    def coefficients(self, batch: TokenBatch, counted: Tensor) -> Tensor:
        responses = batch.mask.any(1).sum().clamp(min=1)
        tokens = counted.sum(1, keepdim=True).clamp(min=1).to(batch.require("advantage", self.name))
        return (1 / (responses * tokens)).expand(batch.mask.shape)

    def formula(self) -> str:
        return "L = mean over responses of the mean over tokens"


@register
class TokenMean(Aggregate):
    """Mean over all counted tokens of the mini-batch, of each prompt (then over prompts), or of each micro-batch.

    DAPO's token-level loss (Yu et al., arXiv:2503.14476, eq. 8).

    Open in the paper: over what the mean runs. Its formula says the prompt (scope=prompt); its code says the
    micro-batch (scope=microbatch, each weighed by its share of the responses); the default here is the mini-batch, as
    in later frameworks.
    """

    name = "token_mean"
    paper = "arXiv:2503.14476"
    failure_modes = ("length_growth",)
    scope: str = parameter("minibatch", ("minibatch", "prompt", "microbatch"), "what the mean runs over")

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


@register
class SeqSum(Aggregate):
    """Sum over the tokens of each response, then the mean over responses.

    The denominator of sequence-level policy gradients (RLOO, Ahmadian et al., arXiv:2402.14740).

    L = (1/N) sum_i sum_t l_it
    """

    name = "seq_sum"
    paper = "arXiv:2402.14740"
    failure_modes = ("length_growth",)

    def coefficients(self, batch: TokenBatch, counted: Tensor) -> Tensor:
        responses = batch.mask.any(1).sum().clamp(min=1)
        return torch.ones_like(batch.require("advantage", self.name)) / responses

    def formula(self) -> str:
        return "L = mean over responses of the sum over tokens"


@register
class ConstantLength(Aggregate):
    """Sum over the tokens of each response over a constant, then the mean over responses.

    Dr. GRPO's denominator (Liu et al., arXiv:2503.20783): the same for every token, whatever the responses' lengths.

    L = (1/N) sum_i (1/length) sum_t l_it
    """

    name = "constant_length"
    paper = "arXiv:2503.20783"
    failure_modes = ("length_growth",)
    length: int | None = parameter(None, "[1, inf)", "the constant in tokens; none: the run's response limit")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset() if self.length else frozenset({"max_length"})

    def coefficients(self, batch: TokenBatch, counted: Tensor) -> Tensor:
        batch.require_all(self.needs, self.name)
        responses = batch.mask.any(1).sum().clamp(min=1)
        length = self.length or batch.max_length
        assert length is not None
        return torch.ones_like(batch.require("advantage", self.name)) / (responses * length)

    def formula(self) -> str:
        return f"L = mean over responses of the sum over tokens / {self.length or 'limit'}"
