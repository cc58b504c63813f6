"""Advantage Reweighting's vectors."""

import math

import pytest

from objectives import parse
from tests.objectives.vectors import small_batch, tokens


def test_advantage_reweighting_weighs_as_printed() -> None:
    probability = tokens([0.05, 0.3, 0.5, 0.9, 1.0], [0.05, 0.3, 0.5, 0.9, 1.0])
    for alpha, expected in ((0.3, [0.715, 0.79, 0.85, 0.97, 1]), (0.1, [0.905, 0.93, 0.95, 0.99, 1])):
        prepared = parse(f"justrl+ar(alpha={alpha})").prepare(small_batch(probability, [1, -1], [0, 0]))
        advantage = 1 / (math.sqrt(2) + 1e-6)
        for row, sign in ((0, 1), (1, -1)):
            assert (prepared.advantage[row] * sign / advantage).tolist() == pytest.approx(expected)
