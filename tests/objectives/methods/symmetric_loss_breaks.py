"""Mistakes that one could make in the symmetric loss."""

from tests.objectives.breaks import Break, always, negated, result

PART = "symmetric_clip"

BREAKS = [
    Break("sign", "away from what is good", PART, "loss", result(negated)),
    Break("weight", "less of PPO", PART, "alpha", always(0.4)),
    Break("weight", "more of the reverse", PART, "beta", always(0.5)),
    Break("bound", "another clip", PART, "low", always(0.25)),
    Break("scope", "nothing is clipped", PART, "clips", result(lambda clips, *given: clips & False)),
]
