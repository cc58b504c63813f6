"""Shuffle-R1's pairs (arXiv:2508.05612): of the responses sorted by reward, the outermost half, as many good as bad."""

import math
from collections.abc import Callable

from tests.objectives.batches import Case, Flags
from tests.objectives.parts_reference import clip, clipped, micro_batch_mean
from tests.objectives.reference import groups


def extreme_pairs(share: float = 0.5) -> Callable[[Case], Flags]:
    """The first and the last of each group's order; equal rewards in the order of their smallest lot."""

    def selects(case: Case) -> Flags:
        selected = case.mask.any(1) & False
        lots = [min(lot[there].tolist(), default=math.inf) for lot, there in zip(case.lot, case.mask, strict=True)]
        for rows in groups(case):
            order = sorted(rows.nonzero()[0].tolist(), key=lambda row: (-case.reward[row], lots[row]))
            pairs = list(zip(order, reversed(order), strict=True))[: len(order) // 2]
            for pair in pairs[: math.floor(share * len(pairs))]:
                selected[list(pair)] = True
        return selected

    return selects


RECIPES = {
    "shuffle_r1": clipped(surrogate=clip(), selects=[extreme_pairs()]),
    "shuffle_r1(variant=authors)": clipped(surrogate=clip(), selects=[extreme_pairs()], share=micro_batch_mean),
}

COMPOSITIONS = {
    "shuffle_r1(share=1)": clipped(surrogate=clip(), selects=[extreme_pairs(1.0)]),
    "justrl+shuffle_r1": clipped(selects=[extreme_pairs()]),
}
