"""Mistakes that one could make in REC."""

from tests.objectives.breaks import Break, always, result

PART = "banded_reinforce"

BREAKS = [
    Break("bound", "another lower width", PART, "low", always(0.3)),
    Break("bound", "another upper width", PART, "high", always(0.3)),
    Break("bound", "the ring begins elsewhere", PART, "far_low", always(0.7)),
    Break("weight", "always by the ratio", PART, "weighted", always(True)),
    Break("sign", "nothing dropped", PART, "clips", result(lambda clips, *given: clips & False)),
]
