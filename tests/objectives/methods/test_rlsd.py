"""RLSD's vectors."""

import math

import pytest
import torch

from objectives import Prepared, parse
from tests.objectives.vectors import rollouts_z, tokens

GAP = tokens([0.125, -0.0625, 0.0, 1.0], [0.125, -2.0], [0.0, 0.0, 3.0], [-1.0])


def prepared(state: dict[str, dict[str, float]] | None = None, expression: str = "rlsd") -> Prepared:
    batch = rollouts_z()
    old = batch.require("logp_old", "test")
    return parse(expression).prepare(batch.with_fields(logp_teacher=old + GAP), state)


def weights(found: Prepared) -> torch.Tensor:
    """[N, T] what the advantages of GRPO are multiplied by; 1 outside the mask."""
    plain = prepared(expression="grpo-kl").advantage
    return torch.where(plain == 0, 1.0, found.advantage / torch.where(plain == 0, 1.0, plain))


def test_good_tokens_count_more_where_the_teacher_finds_them_likelier_and_bad_ones_less() -> None:
    found = weights(prepared())
    assert found[0, 0].item() == pytest.approx(0.5 + 0.5 * math.exp(0.125))
    assert found[0, 1].item() == pytest.approx(0.5 + 0.5 * math.exp(-0.0625))
    assert found[0, 3].item() == pytest.approx(1.1) and found[3, 0].item() == pytest.approx(0.9)
    assert found[1].tolist()[:2] == pytest.approx([0.5 + 0.5 * math.exp(-0.125), 1.1])
    assert found[2].tolist()[:3] == pytest.approx([1.0, 1.0, 0.9])


def test_the_teacher_has_less_to_say_from_step_to_step_and_nothing_after_fifty() -> None:
    state: dict[str, dict[str, float]] | None = None
    found = []
    for _ in range(52):
        step = prepared(state)
        state = step.state
        found.append(weights(step)[0, 3].item())
    assert found[:2] == pytest.approx([1.1, 1 + 0.1 * 49 / 50])
    assert found[25] == pytest.approx(1.05) and found[50:] == pytest.approx([1.0, 1.0])
