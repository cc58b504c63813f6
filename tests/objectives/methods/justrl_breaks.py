"""Mistakes that one could make in JustRL."""

from torch import Tensor

from objectives import TokenBatch
from objectives.batch import Prepared
from tests.objectives.breaks import (
    Break,
    always,
    anchored_to_itself,
    clips_also,
    full,
    given,
    instead,
    negated,
    responses,
    result,
)


def responses_for_tokens(self: object, batch: TokenBatch, counted: Tensor) -> Tensor:
    return full(batch, 1 / responses(batch))


def with_ratio_of_the_rollouts(rows: Prepared, logp: Tensor, entropy: Tensor | None) -> tuple[object, ...]:
    """The old log-probs follow the current ones, so that their ratio is a constant."""
    if rows.logp_old is not None:
        rows = rows.with_fields(logp_old=rows.logp_old + logp - logp.detach())
    return rows, logp, entropy


BREAKS = [
    Break(
        "sign", "lower bound on rewarded tokens", "clip", "clips", clips_also(lambda r, a, b: (a > 0) & (r < 1 - b.low))
    ),
    Break("denominator", "divides by the responses", "token_mean", "coefficients", instead(responses_for_tokens)),
    Break("bound", "authors' dual clip at 3", "dual_clip", "cap", always(3.0)),
    Break("bound", "upper bound not raised", "clip_higher", "high", always(0.2)),
    Break("detach", "anchored to the current policy", "token_ratio", "ratio", anchored_to_itself()),
    Break("sign", "the divergence is sought", "unbiased_kl", "penalty", result(negated)),
    Break("weight", "less of the divergence", "unbiased_kl", "beta", always(0.01)),
    Break("detach", "k3 alone is differentiated", "unbiased_kl", "penalty", given(with_ratio_of_the_rollouts)),
]
