"""MinPRO's vectors."""

import pytest
import torch

from objectives import ObjectiveError, parse
from tests.objectives.vectors import PER_BATCH, assert_close, prepared, pushes, small_batch, tokens


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("strict", [1.2, 0.96, 1.2, 0.4, 0.55]),
        ("capped", [1.2, 0.8, 1.2, 0.4, 0.55]),
        ("inclusive", [1.44, 0.64, 1.2, 0.25, 0.55]),
    ],
)
def test_a_token_is_weighed_with_the_smallest_ratio_before_it(prefix: str, expected: list[float]) -> None:
    old = torch.full((1, 5), 0.3, dtype=torch.float64)
    logp = old.log() + tokens([1.2, 0.8, 1.5, 0.5, 1.1]).log()
    batch = prepared(small_batch(old, [1.0], [0], logp=logp), torch.ones_like(old))
    assert_close(pushes(f"minpro(low=1,high=4,prefix={prefix})", 5.0, batch), expected)


def test_the_vector_of_batch_z() -> None:
    assert_close(
        pushes("minpro(low=1,high=4)", PER_BATCH),
        [1.0512711, 1.4190675, 0.70468809, 2.2255409],
        [-0.37040911, -0.40936538],
        [-1.8221188, -5, -1.733253],
        [0.49009934],
    )


def test_the_widths_are_asked_for_wherever_it_is_added() -> None:
    for expression in ("minpro", "dapo+minpro", "minpro(variant=paper)"):
        with pytest.raises(ObjectiveError, match="cispo needs low and high, for which we know no published value"):
            parse(expression)
    with pytest.raises(ObjectiveError, match="needs high, for which"):
        parse("minpro(low=1)")
    assert parse("dapo+minpro(low=1,high=4)") == parse("dapo+prefix_min_ratio+cispo")
