"""What `Objective.equation` prints is what the objective does."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from objectives import parse
from tests.objectives.batches import Case, random_case, token_batch
from tests.objectives.comparison import evaluate
from tests.objectives.equations.reader import gradients
from tests.objectives.zoo_names import PARTS, TELLING, VARIANTS
from tests.objectives.zoo_sample import SETTINGS

WHERE_NO_LOT_IS_DRAWN = {
    "clip_cov": "grpo+clip_cov(fraction=1,low=0.1)",
    "grpo+clip_cov(fraction=0.01,low=0.1)": "grpo+clip_cov(fraction=1,low=0.5)",
}


def case_with_a_group_that_is_right(seed: int) -> Case:
    """A mild batch, in which selection would have nothing to do but for this group."""
    case = random_case(seed, extreme=False, moved=True)
    whole = case.group == case.group[0]
    return replace(case, correct=np.where(whole, 1.0, case.correct), reward=np.where(whole, 1.0, case.reward))


CASES = [random_case(1, extreme=False, moved=True), *(case_with_a_group_that_is_right(seed) for seed in (2, 3))]


def largest_error(expression: str, equation: str | None = None) -> float:
    """The largest difference of a token's gradient, by log-prob or entropy, over the largest gradient of its batch."""
    objective, worst = parse(WHERE_NO_LOT_IS_DRAWN.get(expression, TELLING.get(expression, expression))), 0.0
    for case in CASES:
        updates = evaluate(objective, token_batch(case))
        read = gradients(equation or objective.equation, case)
        if len(updates) != len(read):
            return math.inf
        for update, gradient in zip(updates, read, strict=True):
            for ours, text in (
                (update.gradient, gradient.by_logp),
                (update.entropy_gradient, gradient.by_entropy),
            ):
                worst = max(worst, float((ours - text).abs().max() / max(float(ours.abs().max()), 1e-12)))
    return worst if math.isfinite(worst) else math.inf


@pytest.mark.parametrize("expression", [*VARIANTS, *PARTS, *(f"grpo+{setting}" for setting in SETTINGS)])
def test_a_printed_equation_read_in_its_order_has_the_gradient_of_the_objective(expression: str) -> None:
    assert largest_error(expression) < 1e-5


@pytest.mark.parametrize(
    "expression", ["grpo+entropy_advantage+ar", "grpo+entropy_advantage(source=old)+ar", "stare+entropy_advantage"]
)
def test_summands_and_factors_stand_in_the_order_in_which_they_are_calculated(expression: str) -> None:
    equation = parse(expression).equation
    (first, second) = re.findall(r"A [+*]= [^;]*", equation)
    swapped = equation.replace(first, "@").replace(second, first).replace("@", second)
    assert largest_error(expression) < 1e-5 < 1e-3 < largest_error(expression, swapped)


@pytest.mark.parametrize("expression", ["stapo", "grpo+entropy_advantage", "hapo", "ce_gppo", "icepop", "gmpo", "fipo"])
def test_a_number_that_is_printed_otherwise_is_noticed(expression: str) -> None:
    equation = parse(expression).equation
    numbers = [match for match in re.finditer(r"(?<![\w.])0\.\d+(?![\w.]|e-)", equation) if float(match[0]) > 1e-3]
    noticed = [
        largest_error(expression, f"{equation[: match.start()]}{float(match[0]) * 0.6:g}{equation[match.end() :]}")
        for match in numbers
    ]
    assert len(numbers) > 0 and max(noticed) > 1e-3 and sum(error > 1e-5 for error in noticed) >= len(numbers) / 2


@pytest.mark.parametrize("expression", ["stapo", "grpo+entropy_advantage+ar", "dapo", "lopti"])
def test_a_statement_that_is_left_out_is_noticed(expression: str) -> None:
    loss, *statements = parse(expression).equation.split("; ")
    idle = ("one pass", "the penalties")
    for left_out in [text for text in statements if not text.startswith(idle)]:
        rest = "; ".join([loss, *(text for text in statements if text != left_out)])
        try:
            error = largest_error(expression, rest)
        except (KeyError, ValueError, IndexError):
            error = math.inf  # the loss names what has no meaning now
        assert error > 1e-5, left_out
