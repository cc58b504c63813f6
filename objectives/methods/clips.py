"""Other objectives of a token than PPO's clip."""

from collections.abc import Mapping

from objectives.batch import Prepared
from objectives.ops import Tensor, torch
from objectives.part import Bounds, Extra, Surrogate, parameter
from objectives.parts.losses import Clip
from objectives.recipes import recipe
from objectives.zoo import register


@register
class Cispo(Surrogate):
    """Policy gradient whose importance weight is clipped and not differentiated."""

    acts_on_policy = False
    failure_modes = ("stale_rollouts", "exploration")
    low: float = parameter(1.0, "[0, 1]", "the weight is clipped to 1 - low below")
    high: float = parameter(4.0, "[0, inf)", "the weight is clipped to 1 + high above")

    def loss(self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Extra) -> Tensor:
        weight = ratio.detach().clamp(1 - self.low, 1 + self.high)
        return -weight * advantage * (logp - logp.detach()).exp()

    def bounded(self, ratio: Tensor, advantage: Tensor, bounds: Bounds) -> Tensor:
        return (advantage != 0) & ((ratio < 1 - self.low) | (ratio > 1 + self.high))

    def formula(self) -> str:
        return f"sg[clip(r, {1 - self.low:g}, {1 + self.high:g})] A log p"


recipe(
    "cispo",
    "grpo+cispo+token_mean-kl",
    paper="arXiv:2506.13585",
    summary="importance weights clipped and detached, so that every token keeps its gradient",
    contribution=("cispo",),
)
"""CISPO: clipped importance-sampling weights (MiniMax-M1, arXiv:2506.13585, eq. 4-5).

    J = (1 / sum_i |y_i|) sum_i sum_t sg[ clip(r_it, 1 - low, 1 + high) ] A_it log pi(y_it)

No token loses its gradient; the weight alone is bounded. Deviations: the loss is -w A exp(log pi - sg[log pi]), of the
same gradient and a value that can be compared.
Open in the paper: the widths; here no lower bound and an upper weight of 5 (ScaleRL, arXiv:2510.13786; TRL's advice).
Libraries mean different things by "epsilon": verl clips to 0.8 and 1.2 unless told, TRL's is the absolute weight.
"""


@register
class FlippedClip(Clip):
    """Policy gradient weighed by 1/r where A > 0 and by r where A < 0, both bounded, none beyond PPO's bounds."""

    failure_modes = ("entropy_collapse",)
    reads_bounds = frozenset({"low", "high"})
    low: float = parameter(0.2, "[0, 1]", "tokens are dropped below 1 - low where A < 0, above 1 + low where A > 0")
    most: float = parameter(3.0, "[1, inf)", "largest weight")

    def loss(self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Extra) -> Tensor:
        weight = torch.where(advantage > 0, 1 / ratio.detach(), ratio.detach()).clamp(max=self.most)
        live = torch.where(self.clips(ratio, advantage, bounds), 0.0, logp - logp.detach())
        return -weight * advantage * live.exp()

    def equation(self, numbers: Mapping[str, str]) -> str:
        good = f"sg[min(1/r, {self.most:g})] where A > 0 and r <= {numbers['high']}"
        return f"({good}, sg[min(r, {self.most:g})] where A < 0 and r >= {numbers['low']}) A log p"


recipe(
    "aspo",
    "grpo+flipped_clip+token_mean+kl(beta=0.001)",
    paper="arXiv:2510.06062",
    summary="importance weights turned over where the advantage is positive",
    contribution=("flipped_clip",),
)
"""ASPO: asymmetric importance sampling (Wang et al., arXiv:2510.06062).

    A > 0:  g = min(1/r, 3) A,  0 where r > 1 + high;      A < 0:  g = min(r, 3) A,  0 where r < 1 - low

g is what grad log pi is multiplied by. PPO weighs a good token by r, most where it is probable already; here the weight
is turned over. It is bounded, but not cut off, at 3. Tokens are dropped by the ratio itself, not by the weight, and
stay in the denominator. With the paper's KL to the reference, k3, 0.001.
Left out: the code widens both bounds to 0.4 for tokens of high entropy, which the paper does not mention.
Deviations: the loss is -w A exp(log pi - sg[log pi]), of the same gradient and a value that can be compared.
"""


@register
class GradientPreservingClip(Clip):
    """Clipped objective in which a token outside keeps a share of the gradient that it has at the bound.

    CE-GPPO's clip that keeps a gradient outside (Su et al., arXiv:2509.20712).
    """

    failure_modes = ("entropy_collapse", "entropy_explosion")
    beta1: float = parameter(0.5, "[0, inf)", "share of the gradient below the lower bound where A < 0")
    beta2: float = parameter(1.0, "[0, inf)", "share of the gradient above the upper bound where A > 0")

    def loss(self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Extra) -> Tensor:
        step = (logp - logp.detach()).exp()
        below, above = (advantage < 0) & (ratio < 1 - bounds.low), (advantage > 0) & (ratio > 1 + bounds.high)
        edge = torch.where(below, self.beta1 * (1 - bounds.low), ratio.detach())
        edge = torch.where(above, self.beta2 * (1 + bounds.high), edge)
        kept = torch.where(below | above, edge * step, ratio)
        return -advantage * torch.where((advantage < 0) & (ratio > bounds.cap), bounds.cap, kept)

    def clips(self, ratio: Tensor, advantage: Tensor, bounds: Bounds) -> Tensor:
        return (advantage < 0) & (ratio > bounds.cap)

    def equation(self, numbers: Mapping[str, str]) -> str:
        low, high = numbers["low"], numbers["high"]
        below = f"{self.beta1:g} * {low} p / sg[p] where A < 0 and r < {low}"
        above = f"{self.beta2:g} * {high} p / sg[p] where A > 0 and r > {high}"
        cap = f", {numbers['cap']} where A < 0 and r > {numbers['cap']}" if "cap" in numbers else ""
        return f"({below}, {above}{cap}, r elsewhere) A"


recipe(
    "ce_gppo",
    "grpo+dynamic_sampling+gradient_preserving_clip+dual_clip(cap=10)+token_mean-kl",
    paper="arXiv:2509.20712",
    summary="a clip that leaves tokens outside a bounded gradient",
    contribution=("gradient_preserving_clip", "dual_clip"),
    essence=("gradient_preserving_clip",),
)
"""CE-GPPO: PPO's clip that keeps a gradient outside (Su et al., arXiv:2509.20712).

    g = beta1 (1 - low) A   where A < 0 and r < 1 - low
    g = beta2 (1 + high) A  where A > 0 and r > 1 + high,   r A elsewhere;   0 where A < 0 and r > 10

g is what grad log pi is multiplied by. beta1 is 0.5 for 1.5B models and 0.75 for 7B (0.25 in the code's configuration);
beta1 = beta2 = 0 has PPO's gradient. An upper bound that it is added to (clip_higher) moves the edge and the gradient
there. Deviations: the dual clip's value counts, as in clip. The same code's GPPO (arXiv:2508.07629) is not this.
"""


@register
class SoftGate(Surrogate):
    """A sigmoid of the ratio in place of the clip."""

    failure_modes = ("mixture_of_experts", "many_epochs")
    printed = "4/tau sigmoid(tau (r - 1)) A"
    explained = "tau = {tau_pos:g} where A > 0, {tau_neg:g} elsewhere"
    tau_pos: float = parameter(1.0, "[1e-6, inf)", "how fast the gate closes where the advantage is positive")
    tau_neg: float = parameter(1.05, "[1e-6, inf)", "how fast it closes elsewhere")

    def loss(self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Extra) -> Tensor:
        tau = torch.where(advantage > 0, torch.full_like(advantage, self.tau_pos), self.tau_neg)
        return -4 / tau * torch.sigmoid(tau * (ratio - 1)) * advantage


recipe(
    "sapo",
    "grpo+soft_gate-kl",
    paper="arXiv:2511.20347",
    summary="a soft gate on the ratio in place of the clip, tighter where the advantage is negative",
)
"""SAPO: soft adaptive policy optimisation (Gao et al., arXiv:2511.20347).

    J = (1/G) sum_i (1/|y_i|) sum_t f(r_it) A_i,   f(r) = (4/tau) sigmoid(tau (r - 1))
    tau = 1 where A > 0, 1.05 elsewhere;  the gradient's factor is sech^2(tau (r - 1)/2) r

No clip: the gate closes smoothly on both sides of r = 1, where its slope is 1, so that one far outlier is ignored.
f(1) = 2/tau is not 1: values of the loss do not compare with PPO's. It goes with sequence_ratio too.
verl's example sets policy_loss.tau_*, which its loss does not read.
"""


@register
class UnboundedPositive(Surrogate):
    """Policy gradient where the advantage is positive, PPO's clip elsewhere."""

    acts_on_policy = False
    failure_modes = ("exploration",)
    reads_bounds = frozenset({"low", "cap"})
    low: float = parameter(0.2, "[0, 1]", "where A < 0 the ratio is clipped to 1 - low below")

    def bounds(self, batch: Prepared) -> Bounds:
        return Bounds(low=self.low)

    def loss(self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Extra) -> Tensor:
        held = torch.where(ratio < 1 - bounds.low, ratio.new_ones(()) - bounds.low, ratio.new_ones(()) * bounds.cap)
        clipped = torch.where(self.clips(ratio, advantage, bounds), held, ratio)
        return -advantage * torch.where(advantage > 0, (logp - logp.detach()).exp(), clipped)

    def clips(self, ratio: Tensor, advantage: Tensor, bounds: Bounds) -> Tensor:
        return (advantage < 0) & ((ratio < 1 - bounds.low) | (ratio > bounds.cap))

    def numbers(self) -> Mapping[str, str]:
        return {"low": f"{1 - self.low:g}"}

    def equation(self, numbers: Mapping[str, str]) -> str:
        inner = f"max(r, {numbers['low']})"
        inner = f"min({inner}, {numbers['cap']})" if "cap" in numbers else inner
        return f"(A log p where A > 0, {inner} A elsewhere)"


recipe(
    "up",
    "grpo+unbounded_positive+token_mean-kl",
    verl="up+dual_clip",
    paper="arXiv:2607.06987",
    summary="good tokens unbounded, bad ones clipped",
    contribution=("unbounded_positive",),
)
"""UP: unbounded positive, asymmetric optimisation (Fan et al., arXiv:2607.06987, eq. 14-15).

    A > 0:   l = -A pi / sg[pi]                            the policy gradient: no anchor, no clip
    A <= 0:  l = -min( r A, clip(r, 1 - low, ...) A )      PPO's, as it stands

Rare tokens of good responses may grow as far as they like; bad ones are held as ever. An upper bound of the ratio has
nothing to act on. Open: its base; here UP-DAPO's token mean, without KL and without DAPO's other parts.
Variant verl (its pull request 7022): dual_clip(cap=3).
"""


@register
class BandedReinforce(Surrogate):
    """Log-prob times advantage, without the tokens whose ratio has left a band."""

    acts_on_policy = False
    failure_modes = ("stale_rollouts",)
    band: str = parameter("one_side", ("one_side", "two_side", "ring"), "which ratios count")
    low: float = parameter(0.2, "(0, 1]", "width of the band below 1")
    high: float = parameter(0.2, "(0, inf)", "width of the band above 1")
    far_low: float = parameter(0.6, "(0, 1]", "ring: how far below 1 a good token counts again")
    far_high: float = parameter(2.0, "(0, inf)", "ring: how far above 1 a bad token counts again")
    weighted: bool = parameter(False, None, "whether a token counts by its ratio")

    def loss(self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Extra) -> Tensor:
        kept = torch.where(self.clips(ratio, advantage, bounds), 0.0, ratio.detach() if self.weighted else 1.0)
        return -kept * advantage * (logp - logp.detach()).exp()

    def clips(self, ratio: Tensor, advantage: Tensor, bounds: Bounds) -> Tensor:
        below, above = ratio < 1 - self.low, ratio > 1 + self.high
        if self.band == "one_side":
            return ((advantage > 0) & above) | ((advantage < 0) & below)
        far = ((advantage >= 0) & (ratio <= 1 - self.far_low)) | ((advantage <= 0) & (ratio >= 1 + self.far_high))
        return (below | above) & ~(far if self.band == "ring" else torch.zeros_like(far))

    def formula(self) -> str:
        below, above = f"r < {1 - self.low:g}", f"r > {1 + self.high:g}"
        far_below, far_above = f"r > {1 - self.far_low:g}", f"r < {1 + self.far_high:g}"
        where = {
            "one_side": f"A > 0 and {above} or A < 0 and {below}",
            "two_side": f"{below} or {above}",
            "ring": f"A > 0 and {far_below} and {below} or A > 0 and {above} or A < 0 and {below} or "
            f"A < 0 and {above} and {far_above}",
        }[self.band]
        return f"(0 where {where}, {'sg[r] ' if self.weighted else ''}A log p elsewhere)"


recipe(
    "rec",
    "grpo+group_center+banded_reinforce+token_mean-kl",
    variants={"two_side": "rec(band=two_side)", "ring": "rec(band=ring)", "is": "rec(weighted=true)"},
    paper="arXiv:2509.24203",
    summary="policy gradient of the tokens whose ratio is within a band",
    contribution=("banded_reinforce",),
)
"""REC: REINFORCE within a band of the ratio (Yao et al., arXiv:2509.24203, as Trinity-RFT has it).

    l = -A log pi  where M = 1, 0 elsewhere
    one_side:  A >= 0 and r <= 1 + high,  or  A <= 0 and r >= 1 - low
    two_side:  1 - low <= r <= 1 + high
    ring:      two_side, or A >= 0 and r <= 1 - far_low, or A <= 0 and r >= 1 + far_high

Neither is an importance weight; with weighted=true the loss is that of the detached ratio times A. Dropped tokens stay
in the denominator. Variants two_side and ring; is: one_side, weighted, whose gradient is PPO's within the clip.
Open: widths (the code's 0.2, 0.2, 0.6, 2); the baseline, here the group's mean. Left out: the k2 term, drift(beta=...).
"""
