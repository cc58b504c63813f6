"""VESPO's vectors."""

import pytest
import torch

from objectives import parse
from tests.objectives.vectors import ADVANTAGE_Z, PER_BATCH, batch_z, pushes, tokens


def test_responses_far_from_the_old_policy_teach_nothing() -> None:
    weight = pushes("vespo", PER_BATCH) / torch.where(ADVANTAGE_Z == 0, 1.0, ADVANTAGE_Z)
    assert weight[[0, 1, 3], 0].tolist() == pytest.approx([0.01538167, 0.78862725, 1.01959346], abs=1e-8)
    assert weight[2, 0].log().item() == pytest.approx(-31.08, abs=0.005)
    assert torch.equal(weight[0], weight[:1, 0].expand(4))


def test_the_other_libraries_value_is_the_weights_log_likelihood() -> None:
    batch = batch_z()
    assert -(pushes("vespo", 1.0) * batch.logp).sum().item() == pytest.approx(0.06547326 * -1, abs=1e-8)


def test_a_token_has_the_sign_of_its_own_advantage() -> None:
    batch = batch_z(tokens([1, -1, 1, 1], [-0.5] * 2, [-1] * 3, [0.5]))
    found = pushes("vespo", PER_BATCH, batch)[0]
    assert found[1] < 0 < found[0]
    assert parse("vespo").reads_current is False
