"""Mistakes that one could make in TOPR."""

from typing import Any

from torch import Tensor

from objectives import Bounds
from tests.objectives.breaks import Break, always, instead, negated, result


def both_signs(self: Any, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Any) -> Tensor:
    return -ratio.detach().clamp(self.low, self.high) * advantage * (logp - logp.detach()).exp()


def differentiated(self: Any, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Any) -> Tensor:
    return -advantage * ratio.clamp(self.low, self.high).where(advantage < 0, (logp - logp.detach()).exp())


BREAKS = [
    Break("sign", "wrong answers pushed", "signed_reward", "of", result(negated)),
    Break("bound", "right answers tapered as well", "taper", "loss", instead(both_signs)),
    Break("bound", "weights above 1", "taper", "high", always(5.0)),
    Break("detach", "weight differentiated", "taper", "loss", instead(differentiated)),
    Break("denominator", "length-normalised ratio", "sequence_ratio", "norm", always("mean")),
]
