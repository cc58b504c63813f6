"""Mistakes that one could make in position shaping."""

from tests.objectives.breaks import Break, always, negated, result

PART = "position_bonus"

BREAKS = [
    Break("sign", "late tokens count less", PART, "weight", result(negated)),
    Break("bound", "another size", PART, "gamma", always(0.12)),
    Break("bound", "another slope", PART, "slope", always(14.0)),
    Break("weight", "a half of it", PART, "weight", result(lambda bonus, batch: bonus / 2)),
    Break("scope", "from the end to the start", PART, "weight", result(lambda bonus, batch: bonus.flip(1))),
]
