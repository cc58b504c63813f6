"""FIPO's vectors."""

from objectives import parse
from objectives.methods.tokens import FutureKL
from tests.objectives.vectors import PER_BATCH, assert_close, batch_z, pushes


def test_a_token_is_weighed_by_what_follows_it() -> None:
    batch = batch_z()
    found = parse("fipo").the(FutureKL).weight(batch) * batch.mask
    assert_close(found, [1.2] * 4, [1, 1.1051709], [1.2, 1, 1], [1])
    wide = FutureKL(low=1e-9, high=1e9).weight(batch).log() * batch.mask
    sums = ([1.0850309, 1.0576951, 0.77428647, 1.2], [-0.20214279, 0.1], [0.55211984, -0.048928603, -0.05], [-0.02])
    assert_close(wide, *sums)


def test_the_vector_of_batch_z() -> None:
    rest = ([0, -0.61070138], [-2.1865426, 0, -0.95122942], [0.49009934])
    assert_close(pushes("fipo", PER_BATCH), [1.2615253, 0, 0.80438406, 0], *rest)
