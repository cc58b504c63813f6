"""STARE's vectors."""

import math

import pytest
import torch

from objectives import parse
from tests.objectives.vectors import small_batch, tokens


@pytest.mark.parametrize(("candidates", "taken"), [(1, 1), (10, 1), (11, 2), (20, 2), (21, 3)])
@pytest.mark.parametrize("sign", [1, -1])
def test_stare_takes_a_tenth_of_the_tokens_of_a_sign_rounded_up(candidates: int, taken: int, sign: int) -> None:
    probability = torch.linspace(0.1, 0.9, candidates, dtype=torch.float64).expand(2, -1)
    batch = small_batch(probability, [sign, -sign], [0, 0])
    prepared = parse("justrl+stare(target_entropy=none,amplify=1.5,attenuate=0.5)").prepare(batch)
    weights = prepared.advantage[0] * sign * (math.sqrt(2) + 1e-6)
    expected = [1.5 if sign > 0 else 0.5] * taken + [1.0] * (candidates - taken)
    assert weights.tolist() == pytest.approx(expected)


@pytest.mark.parametrize(("entropy", "weight"), [(0.2999, 1.1), (0.3, 1.0), (0.5, 1.0)])
def test_stares_gate_is_strict(entropy: float, weight: float) -> None:
    batch = small_batch(tokens([0.5], [0.5]), [1, -1], [0, 0], entropy_old=tokens([entropy], [entropy]))
    advantage = parse("stare").prepare(batch).advantage[0, 0].item()
    assert advantage * (math.sqrt(2) + 1e-6) == pytest.approx(weight)
