"""STAPO (arXiv:2602.15620, section 4): JustRL without tokens that are rare, rewarded and of low entropy among those."""

import math
from collections.abc import Callable

from tests.objectives.batches import Array, Case, Flags
from tests.objectives.methods.advantage_reweighting_reference import reweighting
from tests.objectives.methods.dapo_reference import CODE, IDEAS
from tests.objectives.methods.entropy20_reference import top_entropy
from tests.objectives.methods.grpo_reference import grpo
from tests.objectives.methods.lopti_reference import lopti
from tests.objectives.methods.stare_reference import surprisal_weights
from tests.objectives.parts_reference import clipped, kl, quantile
from tests.objectives.reference import pools


def s2t(
    tau: float = 0.002,
    q: str = "0.75",
    scope: str = "batch",
    source: str = "current",
    leaves_denominator: bool = True,
) -> Callable[[Case, Array], tuple[Flags, bool]]:
    """Not (A > 0 and p < tau and H < the q-quantile of H over the tokens with the first two)."""

    def mask(case: Case, advantage: Array) -> tuple[Flags, bool]:
        logp = case.logp_old if source == "old" else case.current
        entropy = case.entropy_old if source == "old" else case.current_entropy
        kept = case.mask.copy()
        for pool in pools(case, case.mask & (advantage > 0) & (logp < math.log(tau)), scope):
            kept &= ~(pool & (entropy < quantile(entropy[pool], q)))
        return kept, leaves_denominator

    return mask


RECIPES = {
    "stapo": clipped(masks=[s2t()]),
    "stapo(variant=v1)": clipped(masks=[s2t(q="0.8")]),
    "stapo(variant=justrl)": clipped(**CODE, masks=[s2t()]),
}

COMPOSITIONS = {
    "stapo(source=old,tau_p=0.1)": clipped(masks=[s2t(0.1, source="old")]),
    "stapo(denominator=all,q=0.5)": clipped(masks=[s2t(q="0.5", leaves_denominator=False)]),
    "stapo(scope=microbatch,q=1)": clipped(masks=[s2t(q="1", scope="micro")]),
    "grpo+stapo(tau_p=1)": grpo(masks=[s2t(tau=1.0)]),
    "stapo+stare(target_entropy=none)": clipped(masks=[s2t()], weights=[surprisal_weights(target=None)]),
    "entropy20(variant=authors)+stapo+ar+lopti+kl": clipped(
        **IDEAS,
        **CODE,
        masks=[top_entropy(scope="micro"), s2t()],
        weights=[reweighting(0.3)],
        passes=lopti(),
        penalties=[kl()],
    ),
}
