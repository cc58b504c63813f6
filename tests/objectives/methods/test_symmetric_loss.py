"""What the symmetric loss comes to."""

import pytest
import torch

from objectives import parse
from tests.objectives.batches import random_case, token_batch


@pytest.mark.parametrize(("alpha", "beta"), [(0.5, 0.4), (0.5, 0.2), (1.0, 1.0)])
def test_its_gradient_is_that_of_ppo_times_alpha_and_beta_together(alpha: float, beta: float) -> None:
    batch = token_batch(random_case(3, extreme=False, moved=True))
    (found,) = parse(f"symmetric_loss(alpha={alpha},beta={beta})").token_gradients(batch)
    (ppo,) = parse("grpo-kl+token_mean").token_gradients(batch)
    assert ppo.abs().max() > 0
    torch.testing.assert_close(found, (alpha + beta) * ppo)
