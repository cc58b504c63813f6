"""Gradients are those of the equations of the parts, for every recipe and variant and for many mixtures.

`python -m tests.objectives.test_references` prints the table of the largest errors.
"""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from objectives import parse
from objectives.zoo import PARTS as REGISTERED
from tests.objectives.batches import random_case, token_batch
from tests.objectives.comparison import (
    TELLING_SEEDS,
    TOLERANCE,
    UNMOVED_SEEDS,
    case_and_reference,
    error,
    error_of_the_first_update,
    evaluate,
    largest_error,
    relative_error,
)
from tests.objectives.references import FUNCTIONS, REFERENCES, composed, reference
from tests.objectives.zoo_sample import PAIRS, PARTS, SETTINGS

MANY = range(200)
"""The random batches of each night."""


@pytest.mark.parametrize("part", range(4))
def test_gradients_are_those_of_the_equations(part: int) -> None:
    for expression in list(REFERENCES)[part::4]:
        assert largest_error(expression, TELLING_SEEDS, torch.float64) < TOLERANCE[torch.float64], expression
        assert largest_error(expression, TELLING_SEEDS[:2], torch.float32) < TOLERANCE[torch.float32], expression
        unmoved = max(error_of_the_first_update(expression, seed) for seed in UNMOVED_SEEDS)
        assert unmoved < TOLERANCE[torch.float64], expression


@pytest.mark.exhaustive
def test_gradients_of_parts_settings_and_pairs_are_those_of_the_equations() -> None:
    for expression in (*PARTS, *(f"grpo+{setting}" for setting in SETTINGS if "adaptive=true" not in setting), *PAIRS):
        objective, method = parse(expression), composed(expression)
        for seed in TELLING_SEEDS[:3]:
            case = random_case(seed)
            found = error(objective.token_gradients(token_batch(case)), reference(method, case))
            assert found < TOLERANCE[torch.float64], expression


def test_losses_and_entropy_gradients_are_those_of_the_equations() -> None:
    for expression in REFERENCES:
        objective = parse(expression)
        for seed in TELLING_SEEDS[:3]:
            case, expected = case_and_reference(expression, seed)
            for update, wanted in zip(evaluate(objective, token_batch(case)), expected, strict=True):
                assert abs(update.loss - wanted.loss) <= 1e-10 * wanted.loss_scale, expression
                found = update.entropy_gradient.numpy()
                error = relative_error(found, wanted.entropy_gradient, abs(wanted.entropy_gradient))
                assert error < 1e-10, expression


@pytest.mark.exhaustive
@pytest.mark.parametrize("expression", REFERENCES)
def test_gradients_are_those_of_the_equations_on_many_batches(expression: str) -> None:
    print(row := table_row(expression))
    assert "TOO LARGE" not in row


def table_row(expression: str) -> str:
    """An expression, and the largest relative errors of its gradients in float64 and, on a quarter, in float32."""
    batches = {torch.float64: MANY, torch.float32: MANY[: len(MANY) // 4]}
    worst = {dtype: largest_error(expression, batches[dtype], dtype) for dtype in TOLERANCE}
    too_large = any(worst[dtype] >= tolerance for dtype, tolerance in TOLERANCE.items())
    numbers = "  ".join(f"{value:.1e}" for value in worst.values())
    return f"{expression:66s} {numbers}{'  TOO LARGE' * too_large}"


def test_every_part_has_a_function_and_an_expression_that_is_compared_with_it() -> None:
    parts = {name for name, part in REGISTERED.items() if part.__module__.startswith("objectives.")}
    assert FUNCTIONS.keys() == parts == {part.name for text in REFERENCES for part in parse(text).parts}


def test_references_differentiate_their_own_losses() -> None:
    """Central differences of the loss in a random direction."""
    for expression, method in REFERENCES.items():
        for seed in () if method.detached else range(2):
            case = random_case(seed, extreme=False, moved=True)
            draw, step = np.random.default_rng(seed), 1e-6
            case = replace(case, logp=case.logp + 1e-3 * draw.standard_normal(case.logp.shape))
            direction = draw.standard_normal(case.mask.shape)
            ends = (reference(method, replace(case, logp=case.logp + sign * step * direction)) for sign in (1, -1))
            for at, up, down in zip(reference(method, case), *ends, strict=True):
                slope = (down.loss - up.loss) / (2 * step)
                allowed = 1e-6 * at.scale.sum() + 1e-9
                assert slope == pytest.approx((at.gradient * direction).sum(), abs=allowed), expression


def test_random_batches_reach_the_edges() -> None:
    reached: Counter[str] = Counter()
    for seed in range(200):
        case = random_case(seed)
        lengths, tokens = case.mask.sum(1), case.mask
        uniform = [len(set(case.correct[case.group == name])) == 1 for name in set(case.group.tolist())]
        difference = np.where(tokens, case.current, 0.0) - np.where(tokens, case.logp_old, 0.0)
        rare = case.current_entropy[tokens & (case.current < math.log(0.002)) & (case.reward > 0)[:, None]]
        entropy = case.entropy_old[tokens].mean()
        reached["empty response"] += (lengths == 0).any()
        reached["uniform group"] += any(uniform)
        reached["nothing selected"] += all(uniform)
        reached["clipped"] += (difference > 0.3).any() and (difference < -0.3).any()
        reached["capped"] += (difference > 3).any()
        reached["saturated ratio"] += (abs(difference) > 20).any()
        reached["probability 1"] += (case.current[tokens] == 0).any()
        reached["probability < 1e-20"] += (case.current[tokens] < -45).any()
        reached["pool of one"] += len(rare) == 1
        reached["pool with ties"] += len(set(rare.tolist())) < len(rare)
        reached["gate on"] += entropy < 0.3
        reached["gate off"] += entropy >= 0.3
        reached["on-policy"] += case.logp is None
        reached["holes"] += (case.mask.sum(1) < case.length).any()
        reached["long responses with holes"] += (case.length[case.mask.sum(1) < case.length] > case.max_length).any()
    print(dict(reached))
    assert min(reached.values()) >= 5


def main() -> None:
    """Prints the table of the largest errors."""
    print(f"{'largest relative error on random batches':66s} float64  float32")
    for expression in REFERENCES:
        print(table_row(expression), flush=True)


if __name__ == "__main__":
    main()
