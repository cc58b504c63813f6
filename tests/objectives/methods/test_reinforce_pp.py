"""REINFORCE++'s vectors, with and without a baseline per group."""

import pytest
import torch

from objectives import TokenBatch, parse
from tests.objectives.vectors import assert_close, batch_r, batch_z, rollouts_z


def advantages(expression: str, batch: TokenBatch) -> list[float]:
    found = parse(expression).advantages(batch)
    return found.tolist()


@pytest.mark.parametrize("over", ["rows", "tokens"])
def test_the_whole_batch_gives_mean_and_deviation(over: str) -> None:
    low, high = -1.7320508, 0.57735027
    expected = [high, low, low, high, high, high, high, low, *[high] * 4]
    assert advantages(f"reinforce_pp(over={over})-kl_reward", batch_r()) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(
    ("variant", "mixed", "right", "wrong", "equal"),
    [
        ("paper", (1.3093073, -1.3093073), 0.65465367, -1.963961, 0.0),
        ("authors", (1.3574386, -1.2751696), 0.69928656, -1.9333217, 0.041134503),
    ],
)
def test_the_deviation_of_the_batch_divides_centred_groups(
    variant: str, mixed: tuple[float, float], right: float, wrong: float, equal: float
) -> None:
    up, down = mixed
    expected = [up, down, down, up, right, right, right, wrong, *[equal] * 4]
    found = advantages(f"reinforce_pp_baseline(variant={variant})", batch_r())
    assert found == pytest.approx(expected, abs=1e-7)


def test_a_token_is_charged_for_the_divergence_from_there_on() -> None:
    found = parse("reinforce_pp(beta=0.05)").advantages(rollouts_z())
    assert_close(
        found * batch_z().mask,
        [0.99993402, 1.0100089, 0.98985912, 1.0200838],
        [-1.0049715, -0.99993402],
        [-1.0049715, -1.0049715, -0.98482167],
        [0.97978422],
    )


def test_a_response_is_charged_for_its_divergence_and_centred_with_its_group() -> None:
    found = parse("grpo+group_center+kl_reward").advantages(rollouts_z())
    expected = torch.tensor([0.66666667, -0.66, -0.66, 0.65333333], dtype=torch.float64) * 3 / 4
    assert found.tolist() == pytest.approx(expected.tolist(), abs=1e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_million_tokens_do_not_drown_small_advantages(dtype: torch.dtype) -> None:
    reward = torch.ones(1000, dtype=dtype)
    reward[:20] = 0.0
    batch = TokenBatch(mask=torch.ones(1000, 1000).bool(), group=torch.arange(1000) // 4, reward=reward)
    found = parse("reinforce_pp-kl_reward").advantages(batch)
    assert found[-1].item() == pytest.approx(0.02 / (0.02 * 0.98) ** 0.5, rel=1e-3)
