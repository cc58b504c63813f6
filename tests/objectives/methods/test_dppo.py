"""DPPO's vectors; on batch Z with the old policy for the engine that sampled."""

import pytest
import torch

from objectives import ObjectiveError, TokenBatch, parse
from tests.objectives.vectors import PER_BATCH, assert_close, batch_z, prepared, pushes, small_batch, tokens

PROBABILITY = tokens([0.02, 0.25, 0.1, 0.8, 0.7, 0.999])
SAMPLER = tokens([0.01, 0.05, 0.3, 0.5, 0.9, 0.99])


def exact_sampler() -> TokenBatch:
    return batch_z().with_fields(logp_sampler=batch_z().logp_old)


def test_tokens_are_dropped_by_the_change_of_their_probability() -> None:
    rest = ([0, -0.55258546], [-1.8221188, -12.182494, -0.95122942], [0.49009934])
    found = pushes("dppo(variant=trl)", PER_BATCH, exact_sampler())
    assert_close(found, [1.0512711, 0, 0.67032005, 3.3201169], *rest)
    found = pushes("dppo(variant=trl,kind=kl,delta=0.05)", PER_BATCH, exact_sampler())
    assert_close(found, [1.0512711, 0, 0.67032005, 0], *rest)


def test_prime_rls_losses() -> None:
    assert_close(
        pushes("dppo(variant=prime_rl)", PER_BATCH, exact_sampler()),
        [1.0511711, -0.0006, 0.67112005, 3.3177169],
        [0.0006, -0.55278546],
        [-1.8233188, -12.187494, -0.95112942],
        [0.49013934],
    )
    found = pushes("dppo(delta=0.1,side=both)", PER_BATCH, exact_sampler())
    assert_close(found, [1.0512711, 0, 0.67032005, 0], [0, -0.55258546], [0, 0, -0.95122942], [0.49009934])


@pytest.mark.parametrize("setting", ["", "(kind=kl,delta=0.05)"])
@pytest.mark.parametrize(("sign", "kept"), [(1.0, [1, 0, 1, 0, 1, 1]), (-1.0, [1, 1, 0, 1, 0, 1])])
def test_a_rare_token_may_double_and_a_probable_one_may_not_fall(setting: str, sign: float, kept: list[int]) -> None:
    batch = small_batch(PROBABILITY, [1.0], [0], logp_sampler=SAMPLER.log())
    found = pushes(f"dppo{setting}", 6.0, prepared(batch, sign * torch.ones_like(SAMPLER)))
    assert (found != 0).int().tolist() == [kept]


def test_with_a_width_of_one_it_is_cispo_with_its_cap() -> None:
    found = pushes("dppo(delta=1,cap=5)+token_ratio", PER_BATCH)
    torch.testing.assert_close(found, pushes("cispo", PER_BATCH))


def test_the_engines_mismatch_does_not_count_twice() -> None:
    with pytest.raises(ObjectiveError, match="sampler_ratio and sampler_correction do not go together"):
        parse("dppo+sampler_correction")


def test_a_weight_that_nobody_published_is_asked_for() -> None:
    with pytest.raises(ObjectiveError, match=r"drift needs beta, .* give it, as in drift\(beta=NUMBER\)"):
        parse("grpo+drift")
