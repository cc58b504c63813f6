"""KL-Cov's vectors."""

import pytest
import torch

from objectives import parse
from tests.objectives.batches import random_case, token_batch
from tests.objectives.vectors import PER_BATCH, assert_close, batch_z, loss_of, pushes, tokens


def test_the_tokens_of_largest_covariance_are_held_back() -> None:
    found = pushes("kl_cov(fraction=0.2)", PER_BATCH)
    assert_close(
        found,
        [1.0512711, 0.34985881, 0.67032005, 3.3201169],
        [-0.37040911, -1.5525855],
        [-1.8221188, -12.182494, -0.95122942],
        [0.49009934],
    )
    assert loss_of("kl_cov(fraction=0.2)") == pytest.approx(0.93971705, abs=1e-8)
    chosen = parse("kl_cov(fraction=0.2)").plan(batch_z()).touched["cov_penalty"]
    assert chosen.nonzero().tolist() == [[0, 1], [1, 1]]


def test_one_token_at_least_is_held_back() -> None:
    chosen = parse("kl_cov").plan(batch_z()).touched["cov_penalty"]
    assert chosen.nonzero().tolist() == [[0, 1]]


def test_nothing_is_held_back_where_advantages_do_not_vary() -> None:
    equal = batch_z(tokens([0.1] * 4, [0.1] * 2, [0.1] * 3, [0.1]))
    assert not parse("kl_cov").plan(equal).touched["cov_penalty"].any()


def test_it_does_nothing_while_the_policy_has_not_moved() -> None:
    batch = token_batch(random_case(3, moved=False))
    (found,) = parse("kl_cov(fraction=1)").token_gradients(batch)
    assert torch.equal(found, parse("kl_cov-cov_penalty").token_gradients(batch)[0])
