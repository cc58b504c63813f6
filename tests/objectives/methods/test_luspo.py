"""LUSPO's vectors."""

import pytest
import torch

from objectives import parse
from tests.objectives.batches import random_case, token_batch
from tests.objectives.vectors import PER_RESPONSE, assert_close, loss_of, pushes


def test_a_response_counts_as_much_as_it_is_long() -> None:
    assert loss_of("luspo") == pytest.approx(1.19744979, abs=1e-8)
    assert_close(pushes("luspo", 4.0), [0] * 4, [0] * 2, [-2.7639662] * 3, [0.49009934])
    torch.testing.assert_close(pushes("luspo", 4.0), pushes("gspo(low=2e-3,high=2.5e-3)", PER_RESPONSE))


def test_it_is_gspo_times_the_length() -> None:
    for seed in range(6):
        batch = token_batch(random_case(seed, moved=True))
        (found,) = parse("luspo").token_gradients(batch)
        (gspo,) = parse("gspo(low=2e-3,high=2.5e-3)").token_gradients(batch)
        torch.testing.assert_close(found, gspo * batch.mask.sum(1, keepdim=True), rtol=1e-12, atol=1e-15)


def test_adding_it_brings_ratio_widths_and_sum() -> None:
    assert parse("grpo+luspo-kl") == parse("gspo+luspo") == parse("luspo")
    stages = parse("stapo+sequence_ratio+clip(low=2e-3)+clip_higher(high=2.5e-3)+seq_sum")
    assert parse("stapo+luspo") == stages
