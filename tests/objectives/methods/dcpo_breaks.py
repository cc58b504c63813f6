"""Mistakes that one could make in DCPO."""

from dataclasses import replace

from objectives import Bounds, TokenBatch
from tests.objectives.breaks import Break, always, given, result


def by_the_current_policy(bounds: Bounds, batch: TokenBatch) -> tuple[Bounds, TokenBatch]:
    return bounds, batch.with_fields(logp_old=batch.logp)


def exchanged(found: Bounds, bounds: Bounds, batch: TokenBatch) -> Bounds:
    return replace(found, low=found.high, high=found.low)


BREAKS = [
    Break("sign", "bounds exchanged", "dynamic_clip", "modify", result(exchanged)),
    Break("scope", "the current probability", "dynamic_clip", "modify", given(by_the_current_policy)),
    Break("bound", "no largest bound", "dynamic_clip", "most", always(1e30)),
    Break("bound", "width of the scripts", "dynamic_clip", "low", always(0.2)),
    Break("denominator", "no cap", "dual_clip", "cap", always(1e30)),
]
