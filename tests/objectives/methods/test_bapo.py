"""BAPO's vectors: seven tokens, of which the good ones have too small a share."""

import pytest
import torch

from objectives import ObjectiveError, parse
from tests.objectives.vectors import prepared, small_batch, tokens

RATIOS = tokens([0.5, 0.7, 1.5, 2.5, 0.4, 0.9, 1.3])
ADVANTAGE = tokens([0.5, 0.5, 0.5, 0.5, -1, -1, -1.5])


@pytest.mark.parametrize(
    ("expression", "lower", "upper"),
    [
        ("bapo(weighted=false)", 0.6, 1.9),
        ("bapo(variant=authors)", 0.8, 2.0),
        ("bapo(weighted=false,target=0)", 0.6, 1.2),
        ("bapo(weighted=false,target=0.9)", 0.9, 3.0),
        ("bapo(weighted=false,first=lower)", 0.9, 2.3),
    ],
)
def test_the_bounds_widen_until_the_target_is_reached(expression: str, lower: float, upper: float) -> None:
    old = torch.full((1, 7), 0.1, dtype=torch.float64)
    batch = prepared(small_batch(old, [1.0], [0], logp=old.log() + RATIOS.log()), ADVANTAGE)
    bounds = parse(expression).plan(batch).bounds
    assert (1 - bounds.low).tolist() == [[pytest.approx(lower)]]
    assert (1 + bounds.high).tolist() == [[pytest.approx(upper)]]


def test_improbable_tokens_count_less() -> None:
    old = tokens([1e-3] * 4 + [0.9] * 3)
    batch = prepared(small_batch(old, [1.0], [0], logp=old.log() + RATIOS.log()), ADVANTAGE)
    assert (1 + parse("bapo").plan(batch).bounds.high).item() == pytest.approx(3.0)
    assert (1 + parse("bapo(weighted=false)").plan(batch).bounds.high).item() == pytest.approx(1.9)


def test_a_search_of_more_steps_than_anyone_waits_for_is_refused() -> None:
    with pytest.raises(ObjectiveError, match=r"upper_most is more than 10,000 steps from upper; raise upper_step"):
        parse("bapo(upper_most=500000)")
    assert parse("bapo(upper_most=500000,upper_step=100)")
