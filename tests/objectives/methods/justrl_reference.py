"""JustRL (arXiv:2512.16649): DAPO's surrogate and mean, and nothing else."""

from tests.objectives.methods.dapo_reference import CODE
from tests.objectives.parts_reference import (
    clipped,
    group_center,
    overlong_filter,
    sampler_correction,
    seq_sum,
    soft_overlong,
    unclipped,
)

RECIPES = {"justrl": clipped(), "justrl(variant=authors)": clipped(**CODE)}

COMPOSITIONS = {
    "justrl+group_center": clipped(advantage=group_center),
    "justrl+overlong_filter": clipped(selects=[overlong_filter]),
    "justrl+soft_overlong(max_length=8,cache=4)": clipped(rewards=[soft_overlong(8, 4)]),
    "justrl+sampler_correction": clipped(weights=[sampler_correction()]),
    "justrl+seq_sum": clipped(share=seq_sum),
    "justrl+unclipped": clipped(surrogate=unclipped),
}
