"""Rejection of what the sampling engine and the trainer disagree on (ProRL v2 in NeMo-RL).

    I_it = 1[ low <= w_it <= high ],   w as in sampler_correction: of the token, or of the response

As it stands, the mask of NeMo-RL's seq-mask-tis: responses whose geometric mean is in [0.999, 1.002]; with it goes
sampler_correction(cap=none). Silenced tokens stay in the denominator unless shrinks=true.
verl's rollout_rs is the inverse: its k1 is log(pi_sampler/pi_old), and "0.9_1.2" there is low=1/1.2, high=1/0.9 here.
"""

import math
from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.errors import ObjectiveError
from objectives.kinds import Mask
from objectives.lazy import Tensor
from objectives.part import parameter
from objectives.parts.sampler_correction import LEVELS, mismatch
from objectives.zoo import register


@register
@dataclass(frozen=True)
class SamplerMask(Mask):
    """Silences responses (or tokens) that trainer and sampling engine find differently likely."""

    name = "sampler_mask"
    paper = "NeMo-RL 2026"
    troubles = ("engine_mismatch", "mixture_of_experts", "precision")
    reads = frozenset({"logp_old", "logp_sampler"})
    level: str = parameter("geometric", LEVELS, "whose ratio: the token's, or the response's product or geometric mean")
    low: float = parameter(0.999, "[0, inf)", "smallest ratio of trainer to engine that is kept")
    high: float = parameter(1.002, "(0, inf)", "largest ratio that is kept")
    shrinks: bool = parameter(False, None, "whether silenced tokens leave the denominator")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low > self.high:
            raise ObjectiveError(f"{self.name}: low={self.low:g} exceeds high={self.high:g}")

    @property
    def shrinks_denominator(self) -> bool:
        return self.shrinks

    def keeps(self, batch: TokenBatch) -> Tensor:
        change = mismatch(batch, self.level, self.name)
        low = math.log(self.low) if self.low > 0 else -math.inf
        return batch.mask & (change >= low) & (change <= math.log(self.high))

    def formula(self) -> str:
        whose = {"token": "", "product": "product of ", "geometric": "geometric mean of "}[self.level]
        return f"{self.low:g} <= {whose}p_old / p_sampler <= {self.high:g}"
