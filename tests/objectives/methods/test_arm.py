"""ARM's vectors."""

import math

import pytest
import torch

from objectives import ObjectiveError, parse
from objectives.methods.entropy import ConfidenceShift
from tests.objectives.vectors import small_batch, tokens

PROBABILITIES = [0.9, 0.95, 0.2, 0.5, 0.99, 0.7, 0.8, 0.6, 0.85, 0.3]


def test_confidence_is_that_of_the_least_probable_fifth() -> None:
    batch = small_batch(tokens(PROBABILITIES, PROBABILITIES[:1]), [1, 0], [0, 0])
    found = ConfidenceShift(alpha=1.0)._confidence(batch)
    assert found.tolist() == pytest.approx([0.244949, 0.9], abs=1e-6)
    assert ConfidenceShift(alpha=1.0, fraction=1.0)._confidence(batch)[0].item() == pytest.approx(0.611010, abs=1e-6)


def test_the_shift_is_the_prompts_confidence_less_the_responses() -> None:
    probability = tokens([0.5] * 3, [0.25] * 2, [0.9], [0.1])
    batch = small_batch(probability, [1, 0, 1, 1], [0, 0, 1, 1], logp_prompt=tokens([math.log(0.4)] * 4)[0])
    plain, shifted = (parse(it).prepare(batch).advantage for it in ("justrl", "arm(alpha=2)"))
    difference = (shifted - plain)[:, 0].tolist()
    assert difference == pytest.approx([2 * (0.4 - 0.5), 2 * (0.4 - 0.25), 0, 0])
    wide = parse("arm(alpha=2,groups=any_right)").prepare(batch).advantage
    assert (wide - plain)[:, 0].tolist() == pytest.approx([-0.2, 0.3, 2 * (0.4 - 0.9), 2 * (0.4 - 0.1)])
    assert ((shifted - plain)[~batch.mask] == 0).all()


def test_alpha_has_to_be_given() -> None:
    with pytest.raises(ObjectiveError, match="confidence_shift needs alpha, for which we know no published value"):
        parse("arm")


def test_the_prompts_log_probs_are_asked_for() -> None:
    assert "logp_prompt" in parse("arm(alpha=1)").requires(on_policy=True)
    batch = small_batch(tokens([0.5], [0.5]), [1, 0], [0, 0])
    with pytest.raises(ObjectiveError, match="confidence_shift reads the field logp_prompt, which this batch lacks"):
        parse("arm(alpha=1)").prepare(batch)
    assert torch.equal(
        parse("arm(alpha=0)").prepare(batch.with_fields(logp_prompt=torch.zeros(2))).advantage,
        parse("justrl").prepare(batch).advantage,
    )
