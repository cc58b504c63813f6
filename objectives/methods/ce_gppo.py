"""CE-GPPO: PPO's clip that keeps a gradient outside (Su et al., arXiv:2509.20712).

    g = beta1 (1 - low) A   where A < 0 and r < 1 - low
    g = beta2 (1 + high) A  where A > 0 and r > 1 + high,   r A elsewhere;   0 where A < 0 and r > 10

g is what grad log pi is multiplied by. beta1 is 0.5 for 1.5B models and 0.75 for 7B (0.25 in the code's configuration);
beta1 = beta2 = 0 has PPO's gradient. An upper bound that it is added to (clip_higher) moves the edge and the gradient
there. Deviations: the dual clip's value counts, as in clip. The same code's GPPO (arXiv:2508.07629) is not this.
"""

from objectives.parts.dual_clip import DualClip
from objectives.parts.dynamic_sampling import DynamicSampling
from objectives.parts.gradient_preserving_clip import GradientPreservingClip
from objectives.parts.group_norm import GroupNorm
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe

recipe(
    "ce_gppo",
    paper="arXiv:2509.20712",
    summary="a clip outside of which tokens keep a bounded gradient",
    variants={
        "paper": (
            DynamicSampling(),
            GroupNorm(),
            TokenRatio(),
            GradientPreservingClip(),
            DualClip(cap=10.0),
            TokenMean(),
            SinglePass(),
        ),
    },
    contribution=("gradient_preserving_clip", "dual_clip"),
    essence=("gradient_preserving_clip",),
    doc=__doc__,
)
