"""Mistakes that one could make in DPPO."""

from typing import Any

import torch
from torch import Tensor

from tests.objectives.breaks import Break, always, given, log_ratio, result

CLIP = "divergence_clip"


def to_the_old_policy(ratio: Any) -> Any:
    return lambda self, rows, logp: log_ratio(rows, logp).exp()


def of_logarithms(ratio: Tensor, logp: Tensor, *more: Any) -> tuple[Any, ...]:
    return ratio, torch.zeros_like(logp), *more


BREAKS = [
    Break("sign", "drops what comes back", CLIP, "_drops", given(lambda ratio, logp, a: (ratio, logp, -a))),
    Break("bound", "the ratio's change, not the probability's", CLIP, "_drops", given(of_logarithms)),
    Break("bound", "another width", CLIP, "delta", always(0.3)),
    Break("bound", "cap of the code", CLIP, "cap", always(10.0)),
    Break("scope", "the trainer's old policy", "sampler_ratio", "ratio", to_the_old_policy),
    Break("detach", "the penalty is halved", "drift", "penalty", result(lambda value, *given: value / 2)),
]
