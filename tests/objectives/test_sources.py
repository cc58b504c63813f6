"""Variants beside the functions that they name: 40 batches, ratios from e^-3 to e^3, run by `sources/make.py`."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from objectives import parse
from tests.objectives.batches import token_batch
from tests.objectives.comparison import evaluate
from tests.objectives.sources.batches import SEEDS, projected, source_case

VECTORS: dict[str, list[list[float]]] = json.loads((Path(__file__).parent / "sources" / "vectors.json").read_text())


@cache
def difference(expression: str, batches: int) -> float:
    """The largest difference of a projection, relative to the largest push of a token of its batch."""
    objective, largest = parse(expression), 0.0
    for seed in SEEDS[:batches]:
        case = source_case(seed, expression)
        updates = evaluate(objective, token_batch(case))
        pushes = [(update.gradient.numpy(), update.entropy_gradient.numpy()) for update in updates]
        found = [number for push in pushes for number in projected(case, seed, *push)]
        size = max(1e-12, *(abs(values).max() for push in pushes for values in push))
        largest = max(largest, *(abs(np.subtract(found, VECTORS[expression][seed])) / size))
    return largest


@pytest.mark.parametrize("batches", [10, pytest.param(len(SEEDS), marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("expression", VECTORS)
def test_a_variant_is_the_function_that_it_names(expression: str, batches: int) -> None:
    print(f"{expression:60s} {(found := difference(expression, batches)):.0e}")
    assert found < 1e-6
