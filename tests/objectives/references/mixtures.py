"""Pairs and triples that a researcher would type, of parts of different stages."""

import math

from tests.objectives.batches import Array, Case
from tests.objectives.references import grpo, tokens, trust_regions
from tests.objectives.references.parts import (
    center_then_global_norm,
    cispo,
    clip,
    clipped,
    drift,
    dynamic_sampling,
    group_center,
    kl,
    overlong_filter,
    reweighting,
    seq_mean,
    sequence_ratio,
    soft_overlong,
    token_mean,
)
from tests.objectives.references.stages import Reference

GSPO = {"stops_gradients": True, "ratio": sequence_ratio(), "share": seq_mean}
DETACHED = {"stops_gradients": True}
TOP, SPURIOUS = tokens.top_entropy(), tokens.s2t()
MIXED = {"selects": [dynamic_sampling]}


def reweighted_then_shaped(case: Case, advantage: Array) -> Array:
    """The bound of what is added looks at the advantage that is weighed already."""
    weight = reweighting(0.3)(case, advantage)
    return weight * tokens.shaped()(case, weight * advantage)


REFERENCES: dict[str, Reference] = {
    "stapo+entropy20": clipped(masks=[TOP, SPURIOUS]),
    "stapo+lopti+stare": clipped(masks=[SPURIOUS], weights=[tokens.surprisal_weights()], passes=tokens.lopti()),
    "stapo+dual_clip(cap=3)+kl(beta=0.01,estimator=k2)": clipped(
        masks=[SPURIOUS], surrogate=clip(0.2, 0.28, 3.0), penalties=[kl(0.01, "k2")]
    ),
    "entropy_advantage+stapo": clipped(weights=[tokens.shaped()], masks=[SPURIOUS]),
    "advantage_reweighting+entropy_advantage": clipped(
        surrogate=clip(high=0.24), penalties=[kl(0.001)], weights=[reweighted_then_shaped]
    ),
    "gspo+dapo": clipped(
        **{**GSPO, "share": token_mean}, **MIXED, surrogate=clip(3e-4, 0.28), rewards=[soft_overlong()]
    ),
    "gspo+off_policy_mask(delta=0.1)": clipped(**GSPO, surrogate=clip(3e-4, 4e-4), masks=[grpo.off_policy_mask(0.1)]),
    "cispo+entropy20+kl(beta=0.001)": clipped(**DETACHED, surrogate=cispo(), masks=[TOP], penalties=[kl(0.001)]),
    "ce_gppo+stapo": clipped(
        **DETACHED, **MIXED, surrogate=trust_regions.gradient_preserving_clip(cap=10.0), masks=[SPURIOUS]
    ),
    "reinforce_pp_baseline+overlong_filter": clipped(
        **{"surrogate": clip(), "share": seq_mean, "penalties": [kl(1e-5, "k2")], "selects": [overlong_filter]},
        advantage=center_then_global_norm(),
    ),
    "rec(variant=ring)+drift(beta=0.1)": clipped(
        **DETACHED, advantage=group_center, surrogate=trust_regions.rec("ring"), penalties=[drift(0.1)]
    ),
    "dppo+kl(beta=0.001)+dynamic_sampling": clipped(
        **{**DETACHED, **MIXED, "advantage": group_center, "ratio": grpo.sampler_ratio},
        surrogate=grpo.divergence_clip(cap=math.inf),
        penalties=[kl(0.001)],
    ),
}
