"""REC's vectors: ratios 0.3, 0.7, 1, 1.25 and 4."""

import pytest
import torch

from objectives import parse
from tests.objectives.vectors import PER_BATCH, prepared, pushes, small_batch, tokens

RATIOS = tokens([0.3, 0.7, 1.0, 1.25, 4.0])


@pytest.mark.parametrize(
    ("expression", "good", "bad"),
    [
        ("rec", [1, 1, 1, 0, 0], [0, 0, 1, 1, 1]),
        ("rec(variant=two_side)", [0, 0, 1, 0, 0], [0, 0, 1, 0, 0]),
        ("rec(variant=ring)", [1, 0, 1, 0, 0], [0, 0, 1, 0, 1]),
        ("rec(variant=is)", [0.3, 0.7, 1, 0, 0], [0, 0, 1, 1.25, 4]),
    ],
)
def test_a_token_counts_while_its_ratio_is_in_the_band(expression: str, good: list[float], bad: list[float]) -> None:
    old = torch.full((1, 5), 0.1, dtype=torch.float64)
    for sign, expected in ((1.0, good), (-1.0, bad)):
        rollouts = small_batch(old, [1.0], [0], logp=old.log() + RATIOS.log())
        batch = prepared(rollouts, sign * torch.ones_like(old))
        torch.testing.assert_close(pushes(expression, 5.0, batch), sign * tokens(expected))


def test_weighted_it_is_ppo_within_the_clip() -> None:
    ppo, rec = pushes("grpo+token_mean-kl", PER_BATCH), pushes("rec(variant=is)", PER_BATCH)
    torch.testing.assert_close(ppo, rec)
    assert parse("rec(variant=is)").expression == "rec(weighted=true)"
