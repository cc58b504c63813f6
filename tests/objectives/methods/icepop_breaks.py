"""Mistakes that one could make in IcePop and its neighbours."""

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, given, with_negative


def exchanged(batch: TokenBatch) -> tuple[TokenBatch]:
    return (batch.with_fields(logp_old=batch.logp_sampler, logp_sampler=batch.logp_old),)


CORRECTION = "sampler_correction"

BREAKS = [
    Break("sign", "engine over trainer", CORRECTION, "weight", given(exchanged)),
    Break("sign", "good responses dropped", "off_policy_mask", "keeps", with_negative("advantage")),
    Break("bound", "no lower bound", CORRECTION, "low", always(0.0)),
    Break("bound", "clamped, not dropped", CORRECTION, "outside", always("clamp")),
    Break("bound", "width of verl's rejection", "sampler_mask", "high", always(1.001)),
    Break("scope", "token by token", CORRECTION, "level", always("token")),
    Break("scope", "product for geometric mean", "sampler_mask", "level", always("product")),
    Break("denominator", "silenced tokens not counted", "off_policy_mask", "shrinks_denominator", always(True)),
]
