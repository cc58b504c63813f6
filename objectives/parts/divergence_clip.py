"""DPPO's trust region of divergence (Qi et al., arXiv:2602.04879); see the recipe `dppo`."""

from collections.abc import Mapping
from dataclasses import dataclass

from objectives.kinds import Bounds, Surrogate
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class DivergenceClip(Surrogate):
    """Policy gradient with a detached ratio, without the tokens whose probability has moved too far."""

    name = "divergence_clip"
    paper = "arXiv:2602.04879"
    troubles = ("stale_rollouts", "engine_mismatch")
    kind: str = parameter("tv", ("tv", "kl"), "the divergence: total variation or KL, of token against all others")
    delta: float = parameter(0.15, "[0, inf)", "divergence above which a token is dropped")
    cap: float | None = parameter(None, "(0, inf)", "largest ratio that counts; none: no bound")
    side: str = parameter("harmful", ("harmful", "both"), "dropped where the advantage pushes on, or wherever it moved")

    def loss(
        self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Mapping[str, Tensor]
    ) -> Tensor:
        weight = ratio.detach()
        dropped = self._drops(weight, logp, advantage)
        weight = weight if self.cap is None else weight.clamp(max=self.cap)
        return -torch.where(dropped, 0.0, weight) * advantage * (logp - logp.detach()).exp()

    def _drops(self, ratio: Tensor, logp: Tensor, advantage: Tensor) -> Tensor:
        now = logp.detach().exp()
        then = now / ratio
        divergence = (then - now).abs()
        if self.kind == "kl":
            rest, rest_then = (1 - now).clamp(min=0), (1 - then).clamp(min=0)
            others = rest_then * ((rest_then + 1e-8).log() - (rest + 1e-8).log())
            divergence = others - then * ratio.log()
        harmful = ((advantage > 0) & (ratio > 1)) | ((advantage < 0) & (ratio < 1))
        return (divergence > self.delta) & (harmful | (self.side == "both"))

    def formula(self) -> str:
        where = "D > {:g} and r is on the side of A" if self.side == "harmful" else "D > {:g}"
        weight = "r" if self.cap is None else f"min(r, {self.cap:g})"
        return f"(sg[{weight}], 0 where {where.format(self.delta)}) A log p"

    def where(self) -> str:
        return f"D = {self.kind} of p / r and p"
