"""Positive-example likelihood (VAPO, arXiv:2504.05118): - 0.1 log pi, meant over the tokens of right answers."""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clipped, dynamic_sampling, seq_mean
from tests.objectives.reference import Share, Term


def positive_nll(mu: float = 0.1) -> Callable[[Case, Array, Share], Term]:
    """The mean over all tokens of right answers, whatever the others' denominator is."""

    def penalty(case: Case, advantage: Array, share: Share) -> Term:
        tokens = case.mask & (case.correct == 1)[:, None]
        each = mu * tokens / max(1, int(tokens.sum()))
        return Term(-each * case.current, -each, np.zeros(each.shape), each)

    return penalty


RECIPES = {"positive_nll": clipped(penalties=[positive_nll()])}

COMPOSITIONS = {
    "positive_nll(mu=2)+dynamic_sampling+seq_mean": clipped(
        penalties=[positive_nll(2.0)], selects=[dynamic_sampling], share=seq_mean
    )
}
