"""STAPO's vectors."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from objectives import parse
from tests.objectives.references.parts import quantile
from tests.objectives.vectors import small_batch, tokens


def spurious(pool: list[float], expression: str = "stapo", reward: float = 1.0) -> tuple[list[bool], Tensor]:
    """Which of a pool of rare tokens with these entropies are silenced, and the gradient of the whole batch."""
    probability = torch.full((2, len(pool) + 1), 0.001, dtype=torch.float64)
    probability[:, -1] = 0.5
    entropy = tokens([*pool, 0.0], [*pool, 0.0])
    batch = small_batch(probability, [reward, -reward], [0, 0], entropy=entropy, entropy_old=entropy)
    (gradient,) = parse(expression).token_gradients(batch)
    return (gradient[0, :-1] == 0).tolist(), gradient


@pytest.mark.parametrize(("size", "silenced"), [(1, 0), (2, 1), (4, 3), (5, 3)])
def test_stapo_silences_the_lower_three_quarters_of_its_pool(size: int, silenced: int) -> None:
    found, gradient = spurious([0.1 * (i + 1) for i in range(size)])
    assert found == [True] * silenced + [False] * (size - silenced)
    assert (gradient[1] != 0).all()
    counted = 2 * (size + 1) - silenced
    assert gradient[0, -1].item() == pytest.approx(1 / (math.sqrt(2) + 1e-6) / counted, rel=1e-10)


def test_stapo_keeps_ties_at_the_threshold() -> None:
    assert spurious([0.5, 0.5, 0.5, 0.5])[0] == [False] * 4
    assert spurious([0.1, 0.5, 0.5, 0.5])[0] == [True, False, False, False]


def test_stapo_at_q_1_silences_all_but_the_highest_entropy() -> None:
    assert spurious([0.1, 0.4, 0.2, 0.4], "stapo(q=1)")[0] == [True, False, True, False]
    assert spurious([0.1, 0.4, 0.2, 0.4], "stapo(q=0)")[0] == [False] * 4


def test_stapo_without_a_pool_silences_nothing() -> None:
    frequent = small_batch(torch.full((2, 3), 0.5, dtype=torch.float64), [1, -1], [0, 0])
    assert (parse("stapo").token_gradients(frequent)[0] != 0).all()
    equal = small_batch(torch.full((2, 3), 1e-4, dtype=torch.float64), [1, 1], [0, 0])
    plan = parse("stapo").plan(parse("stapo").prepare(equal))
    assert plan.policy_coefficient.tolist() == [[pytest.approx(1 / 6)] * 3] * 2
    assert (parse("stapo").token_gradients(equal)[0] == 0).all()


@pytest.mark.parametrize("q", ["0.1", "0.3", "0.55", "0.75", "0.8", "0.29"])
def test_a_quantile_that_falls_on_a_value_silences_only_what_is_below(q: str) -> None:
    for size in range(2, 102):
        entropies = [i / 128 for i in range(size)]
        boundary = quantile(np.array(entropies), q)
        assert spurious(entropies, f"stapo(q={q})")[0] == [value < boundary for value in entropies]
