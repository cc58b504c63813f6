"""SAPO's vectors."""

import pytest
import torch

from objectives import parse
from tests.objectives.batches import random_case, token_batch
from tests.objectives.vectors import PER_RESPONSE, assert_close, batch_z, loss_of, pushes


def test_the_gate_closes_on_both_sides() -> None:
    assert_close(
        pushes("sapo", PER_RESPONSE),
        [1.0505805, 1.309381, 0.6524309, 1.0819007],
        [-0.3636347, -0.55090423],
        [-1.520779, -0.00038767616, -0.95060608],
        [0.4900513],
    )
    assert loss_of("sapo") == pytest.approx(0.06938089, abs=1e-8)


def test_the_values_are_the_gates() -> None:
    batch, gate = batch_z(), parse("sapo").parts[2]
    ratio = (batch.logp - batch.logp_old).exp()
    found = -gate.loss(ratio, batch.logp, batch.advantage, None, {}) / batch.advantage
    assert_close(
        torch.where(batch.mask, found, 0.0),
        [2.0512599, 2.3463334, 1.673274, 3.6421179],
        [1.647168, 2.0098261],
        [2.6793674, 3.8094935, 1.856002],
        [1.9801993],
    )


def test_a_wide_gate_is_no_gate() -> None:
    for seed in range(10):
        batch = token_batch(random_case(seed, extreme=False, moved=True))
        (found,) = parse("sapo(tau_pos=1e-6,tau_neg=1e-6)").token_gradients(batch)
        torch.testing.assert_close(found, parse("grpo+unclipped-kl").token_gradients(batch)[0], rtol=1e-9, atol=1e-12)
