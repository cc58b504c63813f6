"""Mistakes that one could make in OPO."""

import torch

from tests.objectives.breaks import Break, given, negated, per_group, result

BREAKS = [
    Break("sign", "baseline minus reward", "optimal_baseline", "of", result(negated)),
    Break(
        "denominator",
        "every response counts the same",
        "optimal_baseline",
        "of",
        given(lambda batch: (batch.with_fields(mask=torch.ones_like(batch.mask)),)),
    ),
    Break(
        "denominator",
        "the deviation divides",
        "optimal_baseline",
        "advantage",
        per_group(lambda x: (x - x.mean()) / (x.std() + 1e-6)),
    ),
    Break(
        "scope",
        "baseline of the whole batch",
        "optimal_baseline",
        "of",
        given(lambda batch: (batch.with_fields(group=batch.group * 0),)),
    ),
]
