"""The parts that know a language's truth do what they say, and nothing else."""

from typing import Any

import torch

from objectives import TokenBatch, parse


def advantages(expression: str, batch: TokenBatch) -> torch.Tensor:
    return parse(expression).prepare(batch).advantage


def batch_of(length: int = 10) -> TokenBatch:
    """Four responses to one prompt, the first two right; lengths are all of it, half, half and all of it."""
    mask = torch.ones(4, length, dtype=torch.bool)
    mask[1:3, length // 2 :] = False
    probability = torch.where(torch.arange(length) % 2 == 0, 0.1, 0.9).expand(4, -1)
    return TokenBatch(
        mask=mask,
        group=torch.zeros(4, dtype=torch.long),
        reward=torch.tensor([1.0, 1.0, 0.0, 0.0]),
        correct=torch.tensor([1.0, 1.0, 0.0, 0.0]),
        logp_old=probability.log(),
        logp=probability.log(),
        max_length=length,
    )


def test_only_improbable_tokens_of_good_responses_are_amplified() -> None:
    plain = advantages("grpo-kl", batch_of())
    amplified = advantages("grpo-kl+rlzoo.lab.suite.oracles:amplify_rare(tau=0.2,w=5)", batch_of())
    weight = torch.ones(4, 10)
    weight[:2, ::2] = 5
    assert torch.equal(amplified, plain * weight)


def test_known_places_are_the_last_of_each_period_and_the_others_are_the_rest() -> None:
    kept: dict[str, torch.Tensor] = {}
    for others in ("false", "true"):
        objective = parse(f"grpo-kl+token_mean+rlzoo.lab.suite.oracles:known_places(period=5,others={others})")
        prepared = objective.prepare(batch_of())
        part: Any = next(part for part in objective.parts if part.name == "known_places")
        kept[others] = part.keeps(prepared)
    assert kept["false"][0].nonzero()[:, 0].tolist() == [4, 9]
    assert torch.equal(kept["false"] | kept["true"], batch_of().mask)
    assert not (kept["false"] & kept["true"]).any()


def test_wrong_responses_pay_for_their_length_and_right_ones_do_not() -> None:
    selected = parse("grpo-kl+rlzoo.lab.suite.oracles:shorter_wrong").select(batch_of())
    assert torch.allclose(selected.require("reward", "test"), torch.tensor([1.0, 1.0, -0.5, -1.0]))
