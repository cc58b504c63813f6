"""Mistakes that one could make in a teacher's advantage."""

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, given, negated, result


def of_the_reference(batch: TokenBatch) -> tuple[TokenBatch]:
    return (batch.with_fields(logp_teacher=batch.logp_ref),)


BREAKS = [
    Break("sign", "away from the teacher", "teacher_advantage", "weight", result(negated)),
    Break("field", "the reference for the teacher", "teacher_advantage", "weight", given(of_the_reference)),
    Break("additive", "a factor", "teacher_advantage", "additive", always(False)),
    Break("bound", "not bounded", "teacher_advantage", "clamp", always(None)),
    Break("weight", "half of it", "teacher_advantage", "coefficient", always(0.5)),
    Break("field", "the reference's divergence", "teacher_kl", "anchor", lambda original: "ref"),
]
