"""Mistakes that one could make in pass@k training."""

import math
from typing import Any

from tests.objectives.breaks import Break, always, given, instead, negated, result


def without_the_deviation(self: Any, n: int, c: int) -> tuple[float, float]:
    k = min(self.k, n)
    failure = math.comb(n - c, k) / math.comb(n, k)
    return failure, failure - math.comb(max(n - c - 1, 0), k - 1) / math.comb(n - 1, k - 1) if c < n else 0.0


BREAKS = [
    Break("sign", "pass rate minus pass", "pass_at_k", "of", result(negated)),
    Break("bound", "pass@1", "pass_at_k", "k", always(1)),
    Break("denominator", "the deviation does not divide", "pass_at_k", "_of_group", instead(without_the_deviation)),
    Break(
        "strictness",
        "half right is right",
        "pass_at_k",
        "of",
        given(lambda batch: (batch.with_fields(correct=(batch.correct > 0).double()),)),
    ),
    Break(
        "scope",
        "sets across prompts",
        "pass_at_k",
        "of",
        given(lambda batch: (batch.with_fields(group=batch.group * 0),)),
    ),
    Break("zero", "the wrong have none", "pass_at_k", "_of_group", result(lambda pair, n, c: (pair[0], 0.0))),
]
