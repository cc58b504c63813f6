import math

import pytest
import torch

from rlzoo.tally import sampler_difference


def test_the_difference_of_sampler_and_trainer_is_that_of_the_counted_tokens() -> None:
    trainer = torch.tensor([[-1.0, -2.0, 50.0], [-0.5, 9.0, 9.0]])
    sampler = torch.tensor([[-1.1, -1.7, 0.0], [-0.5, 0.0, 0.0]])
    mask = torch.tensor([[True, True, False], [True, False, False]])
    found = sampler_difference(trainer, sampler, mask)
    assert found["sampler/difference"] == pytest.approx((0.1 + 0.3) / 3, abs=1e-6)
    assert found["sampler/largest_difference"] == pytest.approx(0.3, abs=1e-6)
    by_hand = [math.exp(0.1) - 1 - 0.1, math.exp(-0.3) - 1 + 0.3]
    assert found["sampler/kl"] == pytest.approx(sum(by_hand) / 3, abs=1e-6)


def test_a_sampler_that_agrees_differs_by_nothing() -> None:
    logp = torch.randn(4, 5)
    assert set(sampler_difference(logp, logp, torch.ones(4, 5, dtype=torch.bool)).values()) == {0.0}


def test_the_kl_estimate_of_sampled_tokens_is_the_kl_from_sampler_to_trainer() -> None:
    torch.manual_seed(0)
    sampler, trainer = torch.randn(2, 20).log_softmax(-1)
    exact = float((sampler.exp() * (sampler - trainer)).sum())
    tokens = torch.distributions.Categorical(logits=sampler).sample((500, 400))
    found = sampler_difference(trainer[tokens], sampler[tokens], torch.ones_like(tokens, dtype=torch.bool))
    assert found["sampler/kl"] == pytest.approx(exact, rel=0.02)
