"""What a method does to tokens: `touched` against calculations by hand."""

import math

import torch
from torch import Tensor

from objectives import TokenBatch, parse
from tests.objectives.vectors import small_batch, tokens


def batch_of(ratio: Tensor, reward: list[float], **more: object) -> TokenBatch:
    """A group of responses with tokens where `ratio` is not 0, probability 0.5 and entropy 1 unless told otherwise."""
    half = torch.full(ratio.shape, math.log(0.5), dtype=torch.float64)
    fields = {"logp": half, "logp_old": half - ratio.clamp(min=1e-9).log(), "logp_ref": half}
    there = torch.where(ratio > 0, 0.5, 0.0).double()
    never = torch.zeros(len(ratio)).bool()
    others = {"truncated": never, "max_length": 1000, "group": [0] * len(reward), **fields, **more}
    return small_batch(there, reward, **others)


def touched(expression: str, batch: TokenBatch) -> dict[str, list[list[int]]]:
    """Part -> [N][T] of 0 and 1."""
    objective = parse(expression)
    plan = objective.plan(objective.passes(objective.prepare(batch))[0])
    found = objective.touched(plan, slice(None), plan.batch.logp)
    return {name: mask.int().tolist() for name, mask in found.items()}


NONE = [[0] * 4, [0] * 4]
MOVED = batch_of(tokens([1.0, 1.25, 1.5, 0.5], [1.0, 1.25, 11.0, 0.5], [4.0, 0.79, 0.81, 0.0]), [1, -1, -1])
AHEAD = batch_of(tokens([1.0, 1.15, 1.5], [1.0, 1.15, 1.5]), [1, -1])
UNSURE = batch_of(tokens([1, 1, 1, 1, 1], [1, 1, 1, 0, 0]), [1, -1], entropy=tokens([5, 4, 3, 2, 1], [0, 1, 2, 9, 9]))
RARE = tokens([0.001] * 4 + [0.5], [0.001] * 5).log()
RARELY = batch_of(torch.ones(2, 5), [1, -1], logp=RARE, logp_old=RARE, entropy=tokens([0.4, 0.1, 0.3, 0.2, 0], [0] * 5))
KNOWN = batch_of(
    tokens([1, 1, 1], [1, 1, 0]),
    [1, -1],
    logp_old=tokens([0.0, math.log(0.5), -9.0], [0.0, -5.0, -9.0]),
    entropy_old=torch.full((2, 3), 0.1).double(),
)
SPLIT = batch_of(torch.ones(2, 3), [1, -1], logp_old=tokens([0.1, 0.6, 0.5], [0.9, 0.49, 0.2]).log())
CUT_OFF = batch_of(
    tokens([1, 1, 1, 1, 1], [1, 1, 1, 1, 0], [1, 1, 0, 0, 0], [1, 1, 0, 0, 0]),
    [1, -1, 1, 1],
    group=[0, 0, 1, 1],
    max_length=5,
    truncated=torch.tensor([True, False, False, True]),
)
TOUCHED = [
    (MOVED, "grpo", "clip", [[0, 1, 1, 0], [0, 0, 0, 1], [0, 1, 0, 0]]),
    (MOVED, "justrl", "clip", [[0, 0, 1, 0], [0, 0, 0, 1], [0, 1, 0, 0]]),
    (MOVED, "justrl(variant=authors)", "clip", [[0, 0, 1, 0], [0, 0, 1, 1], [0, 1, 0, 0]]),
    (MOVED, "justrl+dual_clip", "clip", [[0, 0, 1, 0], [0, 0, 1, 1], [1, 1, 0, 0]]),
    (MOVED, "justrl", "clip_higher", [[0, 1, 0, 0], *NONE]),
    (MOVED, "justrl(high=0.6)", "clip_higher", [[0, 1, 1, 0], *NONE]),
    (AHEAD, "justrl+clip_higher(high=0.1)", "clip_higher", [[0, 1, 0], [0, 0, 0]]),
    (MOVED, "grpo+dual_clip", "dual_clip", [[0] * 4, [0, 0, 1, 0], [1, 0, 0, 0]]),
    (RARELY, "stapo", "s2t", [[0, 1, 1, 1, 0], [0] * 5]),
    (RARELY, "stapo(q=0.5)", "s2t", [[0, 1, 0, 1, 0], [0] * 5]),
    (RARELY, "stapo(tau_p=0.0001)", "s2t", [[0] * 5, [0] * 5]),
    (UNSURE, "dapo+top_entropy(fraction=0.5)", "top_entropy", [[0, 0, 0, 0, 1], [1, 1, 0, 0, 0]]),
    (UNSURE, "entropy20", "top_entropy", [[0, 0, 1, 1, 1], [1, 1, 1, 0, 0]]),
    (KNOWN, "ar", "advantage_reweighting", [[0, 1, 1], [0, 1, 0]]),
    (KNOWN, "ar(alpha=0)", "advantage_reweighting", [[0, 0, 0], [0, 0, 0]]),
    (KNOWN, "stare", "surprisal_reweighting", [[0, 0, 1], [0, 0, 0]]),
    (KNOWN, "stare(variant=c2)", "surprisal_reweighting", [[0, 0, 1], [0, 1, 0]]),
    (KNOWN, "stare(target_entropy=0.05)", "surprisal_reweighting", [[0, 0, 0], [0, 0, 0]]),
    (SPLIT, "lopti", "lopti", [[1, 0, 0], [0, 1, 1]]),
    (SPLIT, "lopti(order=high_first)", "lopti", [[1, 0, 0], [0, 1, 1]]),
    (CUT_OFF, "dapo+overlong_filter", "soft_overlong", [[1] * 5, [0] * 5, [0] * 5, [0] * 5]),
    (CUT_OFF, "dapo+overlong_filter", "dynamic_sampling", [[0] * 5, [0] * 5, [1, 1, 0, 0, 0], [1, 1, 0, 0, 0]]),
    (CUT_OFF, "dapo+overlong_filter", "overlong_filter", [[1] * 5, [0] * 5, [0] * 5, [1, 1, 0, 0, 0]]),
]
"""A batch, an expression, a part, and the tokens that it touches: those cut off, masked, weighed or dropped by it."""


def test_parts_touch_the_tokens_that_they_change() -> None:
    for batch, expression, part, expected in TOUCHED:
        assert touched(expression, batch)[part] == expected, expression
