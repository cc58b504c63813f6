"""Mistakes that one could make in SDAR's gate."""

from typing import Any

import torch
from torch import Tensor

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, instead, negated, result

PART = "gated_distillation"


def open_gate(self: Any, rows: TokenBatch, logp: Tensor, entropy: object) -> Tensor:
    return self.coefficient * (rows.logp_teacher - logp)


def differentiated(self: Any, rows: TokenBatch, logp: Tensor, entropy: object) -> Tensor:
    gap = rows.logp_teacher - logp
    return self.coefficient * torch.sigmoid(self.beta * gap) * gap


BREAKS = [
    Break("sign", "tokens are lowered", PART, "penalty", result(negated)),
    Break("weight", "without a gate", PART, "penalty", instead(open_gate)),
    Break("detach", "the gate is differentiated", PART, "penalty", instead(differentiated)),
    Break("bound", "a softer gate", PART, "beta", always(1.0)),
]
