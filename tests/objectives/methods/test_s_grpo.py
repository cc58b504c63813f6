"""S-GRPO's draw."""

import pytest
import torch

from objectives import ObjectiveError, TokenBatch, lots, parse, uniform_of

GROUP = torch.arange(64) // 8


def kept(expression: str, length: int = 200) -> torch.Tensor:
    batch = TokenBatch(
        mask=torch.ones(64, length, dtype=torch.bool),
        group=GROUP,
        reward=(torch.arange(64) % 2).double(),
        logp_old=torch.full((64, length), -1.0).double(),
        lot=lots(GROUP, length, seed=3),
        on_policy=True,
    )
    objective = parse(expression)
    return ~objective.plan(objective.prepare(batch)).touched["random_tokens"]


def test_a_lot_is_uniform_between_0_and_1() -> None:
    values = uniform_of(lots(GROUP, 200, seed=0))
    assert 0 <= values.min() < 1e-3 and 1 - 1e-3 < values.max() < 1
    assert torch.histc(values, 10, 0, 1) / values.numel() == pytest.approx([0.1] * 10, abs=0.01)
    ends = torch.tensor([[-(2**63), 0, 2**63 - 1]])
    assert uniform_of(ends).tolist() == [[0.0, 0.5, 1 - 2**-53]]


def test_two_in_five_tokens_are_drawn_each_by_itself() -> None:
    drawn = kept("s_grpo(share=0.4)").double()
    assert drawn.mean().item() == pytest.approx(0.4, abs=0.01)
    assert drawn.sum(1).var().item() == pytest.approx(200 * 0.4 * 0.6, rel=0.5)
    assert kept("s_grpo(share=1)").all()


def test_the_first_are_always_kept_and_none_is_drawn_once_there_are_enough() -> None:
    drawn = kept("s_grpo(share=0.4,first=25,limit=40)")
    assert drawn[:, :25].all() and (drawn.sum(1) == 40).all()
    last = drawn.double().cumsum(1).argmax(1)
    assert ((last > 40) & (last < 120)).all(), "the earliest of the drawn, not the last or any"
    assert (kept("s_grpo(share=0.4,first=25,limit=10)").sum(1) == 25).all()


def test_the_share_is_asked_for() -> None:
    with pytest.raises(ObjectiveError, match="random_tokens needs share, for which we know no published value"):
        parse("s_grpo")
