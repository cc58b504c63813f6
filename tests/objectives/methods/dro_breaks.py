"""Mistakes that one could make in DRO."""

from typing import Any

from torch import Tensor

from tests.objectives.breaks import Break, always, given, negated, result


def with_the_ratio(ratio: Tensor, logp: Tensor, advantage: Tensor, *more: Any) -> tuple[Any, ...]:
    return ratio, logp, advantage * ratio.detach(), *more


BREAKS = [
    Break("sign", "the penalty rewards", "drift", "penalty", result(negated)),
    Break("bound", "the square without its half", "drift", "estimator", always("square")),
    Break("scope", "near the engine", "drift", "to", always("sampler")),
    Break("detach", "with a ratio", "reinforce", "loss", given(with_the_ratio)),
]
