"""Mistakes that one could make in OPSD."""

from tests.objectives.breaks import Break, always, negated, result

BREAKS = [
    Break("sign", "away from the teacher", "teacher_advantage", "weight", result(negated)),
    Break("weight", "half of it", "teacher_advantage", "coefficient", always(0.5)),
    Break("scope", "one mean for all micro-batches", "token_mean", "scope", always("minibatch")),
]
