"""PPO's objective of a token with the modifiers of its bounds, and what stands in its place without bounds."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from objectives.batch import TokenBatch
from objectives.kinds import Bounds, Extra, Modifier, Surrogate
from objectives.lazy import Tensor, torch
from objectives.part import Part, parameter
from objectives.zoo import register

FAR_WIDER = 20.0
"""How many times the lower width an upper one may be without a notice; widths for responses are far smaller."""


@register
class Clip(Surrogate):
    """Pessimistic minimum of the ratio's and the clipped ratio's objective; symmetric unless modified.

    PPO's clipped surrogate (Schulman et al., arXiv:1707.06347, eq. 7).

        l_it = -min( r_it A_it, clip(r_it, 1 - low, 1 + high) A_it )

    Without dual_clip a negative advantage pushes with the whole ratio, up to e^20 |A|, and beyond the ratio's clamp not
    at all.
    """

    name = "clip"
    acts_on_policy = False
    paper = "arXiv:1707.06347"
    failure_modes: ClassVar[tuple[str, ...]] = ("many_epochs",)
    reads_bounds = frozenset({"low", "high", "cap"})
    low: float = parameter(0.2, "[0, 1]", "the ratio is clipped to 1 - low below, and to 1 + low above")

    def bounds(self, batch: TokenBatch) -> Bounds:
        return Bounds(self.low, self.low)

    def loss(self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Extra) -> Tensor:
        lower, upper, cap = (_like(bound, ratio) for bound in (1 - bounds.low, 1 + bounds.high, bounds.cap))
        bound = torch.where(advantage > 0, upper, torch.where(ratio < lower, lower, cap))
        return -advantage * torch.where(self.clips(ratio, advantage, bounds), bound, ratio)

    def clips(self, ratio: Tensor, advantage: Tensor, bounds: Bounds) -> Tensor:
        outside = (advantage < 0) & ((ratio < 1 - bounds.low) | (ratio > bounds.cap))
        return outside | (advantage > 0) & (ratio > 1 + bounds.high)

    def numbers(self) -> Mapping[str, str]:
        return {"low": f"{1 - self.low:g}", "high": f"{1 + self.low:g}"}

    def equation(self, numbers: Mapping[str, str]) -> str:
        inner = f"min(r A, clip(r, {numbers['low']}, {numbers['high']}) A)"
        return f"max({inner}, {numbers['cap']} min(A, 0))" if "cap" in numbers else inner


def _like(bound: float | Tensor, ratio: Tensor) -> Tensor:
    return bound.to(ratio) if isinstance(bound, Tensor) else ratio.new_full((), bound)


@register
class ClipHigher(Modifier):
    """Raises the upper clip bound, so that unlikely tokens of good responses can grow further.

    Clip-higher of DAPO (Yu et al., arXiv:2503.14476, section 3.1): the upper bound is a number of its own.
    """

    name = "clip_higher"
    paper = "arXiv:2503.14476"
    failure_modes = ("exploration", "entropy_collapse")
    sets = frozenset({"high"})
    high: float = parameter(0.28, "[0, inf)", "the ratio is clipped to 1 + high above")

    def notices(self, parts: Mapping[str, Part]) -> Iterator[str]:
        yield from super().notices(parts)
        clip = parts.get(Clip.name)
        if isinstance(clip, Clip) and self.high > FAR_WIDER * clip.low > 0:
            yield (
                f"{self.name}(high={self.high:g}): far wider than "
                f"clip(low={clip.low:g}), so that nearly no token with A > 0 is clipped. Give both the same scale."
            )

    def modify(self, bounds: Bounds, batch: TokenBatch) -> Bounds:
        return replace(bounds, high=self.high)

    def numbers(self) -> Mapping[str, str]:
        return {"high": f"{1 + self.high:g}"}

    def formula(self) -> str:
        return f"upper clip bound {1 + self.high:g}"


@register
class DualClip(Modifier):
    """Bounds the loss of a negative advantage: a ratio above `cap` has no gradient.

    Dual clip (Ye et al., arXiv:1912.09729, eq. 5): the loss of a negative advantage is bounded.

    l_it = -max( min( r A, clip(r) A ), cap A )   where A < 0
    """

    name = "dual_clip"
    paper = "arXiv:1912.09729"
    failure_modes = ("many_epochs",)
    sets = frozenset({"cap"})
    cap: float = parameter(3.0, "(1, inf)", "largest ratio that counts where the advantage is negative")

    def modify(self, bounds: Bounds, batch: TokenBatch) -> Bounds:
        return replace(bounds, cap=self.cap)

    def numbers(self) -> Mapping[str, str]:
        return {"cap": f"{self.cap:g}"}

    def formula(self) -> str:
        return f"max(min(r A, clip(r) A), {self.cap:g} A) where A < 0"


@register
class Unclipped(Surrogate):
    """Ratio times advantage, and nothing that bounds it.

    The importance-weighted objective without a clip: the surrogate that PPO's clip bounds.

    l_it = -r_it A_it
    """

    name = "unclipped"
    acts_on_policy = False
    paper = "arXiv:1707.06347"

    def loss(self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Extra) -> Tensor:
        return -ratio * advantage

    def formula(self) -> str:
        return "r A"


@register
class Reinforce(Surrogate):
    """Log-prob times advantage, whatever policy sampled.

    The policy gradient without an importance ratio (Williams, Machine Learning 8, 1992).

        l_it = -A_it log pi(y_it)

    Right for one update per rollout only: it does not know that the policy has moved since. Deviations: the loss is
    -A exp(log pi - sg[log pi]), of the same gradient and a value that can be compared.
    """

    name = "reinforce"
    acts_on_policy = False
    paper = "doi:10.1007/BF00992696"
    reads_ratio = False

    def loss(self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Extra) -> Tensor:
        return -advantage * (logp - logp.detach()).exp()

    def formula(self) -> str:
        return "A log p"
