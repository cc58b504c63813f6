"""Mistakes that one could make in Clip-Cov."""

from tests.objectives.breaks import Break, always, given, old_for_current, with_negative

BREAKS = [
    Break("sign", "negative covariance", "clip_cov", "keeps", with_negative("advantage")),
    Break("denominator", "silenced tokens not counted", "clip_cov", "shrinks_denominator", always(True)),
    Break("scope", "drawn among all tokens below", "clip_cov", "low", always(-1e9)),
    Break("scope", "means per micro-batch", "clip_cov", "scope", always("microbatch")),
    Break("scope", "drawn by the current policy", "clip_cov", "keeps", given(old_for_current)),
]
