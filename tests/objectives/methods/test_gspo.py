"""GSPO's vectors."""

import pytest
import torch

from objectives import parse
from tests.objectives.batches import random_case, token_batch
from tests.objectives.vectors import PER_RESPONSE, assert_close, batch_z, loss_of, pushes, tokens


def test_a_response_has_one_ratio_and_is_clipped_as_a_whole() -> None:
    ratio = parse("gspo").parts[1].ratio(batch_z(), batch_z().logp)
    assert ratio[:, 0].tolist() == pytest.approx([1.33309059, 0.90483742, 2.76396617, 0.98019867])
    assert (ratio == ratio[:, :1]).all()
    found = pushes("gspo", PER_RESPONSE)
    assert_close(found, [0] * 4, [0] * 2, [-2.7639662] * 3, [0.49009934])
    assert loss_of("gspo") == pytest.approx(0.44332921, abs=1e-8)
    assert (-found / PER_RESPONSE)[2, 0].item() == pytest.approx(0.23033051, abs=1e-8)
    assert (-found / PER_RESPONSE)[3, 0].item() == pytest.approx(-0.12252483, abs=1e-8)


def test_tokens_with_advantages_of_their_own_are_clipped_one_by_one() -> None:
    batch = batch_z(tokens([1, 1, -1, 1], [-0.5, -0.5], [-1, 0.5, -1], [0.5]))
    found = pushes("gspo", PER_RESPONSE, batch)
    assert_close(found, [0, 0, -1.3330906, 0], [0, 0], [-2.7639662, 0, -2.7639662], [0.49009934])
    assert loss_of("gspo", batch) == pytest.approx(0.31715852, abs=1e-8)


def test_the_product_of_ratios_is_the_sequences_own() -> None:
    expression = "gspo(norm=sum,low=0.2,high=0.2)+seq_sum"
    assert_close(pushes(expression, 4.0), [0] * 4, [-0.40936538] * 2, [-21.115344] * 3, [0.49009934], digits=1e-6)


@pytest.mark.parametrize("norm", ["mean", "sum"])
def test_the_ratio_of_a_response_of_one_token_is_the_tokens(norm: str) -> None:
    for seed in range(10):
        batch = token_batch(random_case(seed, extreme=False, moved=True))
        first = torch.arange(batch.mask.shape[1]) == batch.mask.int().argmax(1, keepdim=True)
        batch = batch.with_fields(mask=batch.mask & first)
        (found,) = parse(f"grpo+sequence_ratio(norm={norm})").token_gradients(batch)
        torch.testing.assert_close(found, parse("grpo").token_gradients(batch)[0], rtol=1e-12, atol=1e-15)
