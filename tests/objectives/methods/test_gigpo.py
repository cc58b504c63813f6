"""GiGPO's vectors, by hand."""

import pytest
import torch

from objectives import ObjectiveError, TokenBatch, parse


def episodes(turn: list[list[int]], earned: list[list[float]], state: list[list[int]]) -> TokenBatch:
    """Episodes of one group; a turn of -1 is nobody's token."""
    turns, rewards = torch.tensor(turn), torch.tensor(earned, dtype=torch.float64)
    mask = turns >= 0
    logp = torch.full(mask.shape, -1.0, dtype=torch.float64)
    return TokenBatch(
        mask=mask,
        group=torch.zeros(len(mask), dtype=torch.long),
        reward=torch.zeros(len(mask), dtype=torch.float64),
        turn=turns.clamp(min=0),
        turn_reward=rewards,
        turn_state=torch.tensor(state),
        logp_old=logp,
    )


def added(batch: TokenBatch, **changes: object) -> torch.Tensor:
    settings = ",".join(f"{name}={value}" for name, value in ({"scaled": "false"} | changes).items())
    return parse(f"dr_grpo+turn_advantage({settings})").prepare(batch).advantage


TWO_TURNS = ([[0, 0, 1], [0, 1, 1]], [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], [[7, 7, 3], [7, 3, 3]])


def test_a_turn_is_compared_with_those_from_its_state_by_its_discounted_return() -> None:
    # Returns 0.5 and 1 from state 7, 1 and 0 from state 3.
    expected = [[-0.25, -0.25, 0.5], [0.25, -0.5, -0.5]]
    assert added(episodes(*TWO_TURNS), gamma=0.5).tolist() == expected
    scaled = added(episodes(*TWO_TURNS), gamma=0.5, scaled="true")
    assert scaled[0].tolist() == pytest.approx([-(0.5**0.5), -(0.5**0.5), 0.5**0.5], abs=1e-5)


def test_omega_weighs_it_and_a_discount_of_zero_leaves_a_turns_own_reward() -> None:
    assert added(episodes(*TWO_TURNS), gamma=0, omega=2).tolist() == [[-1.0, -1.0, 1.0], [1.0, -1.0, -1.0]]


def test_a_state_that_nobody_else_was_in_adds_nothing() -> None:
    turn, earned, _ = TWO_TURNS
    for scaled in ("true", "false"):
        assert not added(episodes(turn, earned, [[0, 0, 1], [2, 3, 3]]), scaled=scaled).any()


def test_a_state_that_one_episode_comes_back_to_is_compared_with_itself() -> None:
    batch = episodes([[0, 1], [0, -1]], [[0.0, 1.0], [0.0, 0.0]], [[5, 5], [6, 6]])
    assert added(batch, gamma=0).tolist() == [[-0.5, 0.5], [0.0, 0.0]]


def test_episodes_of_one_turn_have_the_centred_reward_once_more() -> None:
    batch = episodes([[0, 0], [0, -1], [0, -1]], [[1.0, 1.0], [0.0, 9.0], [0.5, 9.0]], [[0, 0], [0, 4], [0, 4]])
    assert added(batch).tolist() == [[0.5, 0.5], [-0.5, 0.0], [0.0, 0.0]]


def test_a_batch_without_turns_is_refused_by_name() -> None:
    batch = episodes(*TWO_TURNS).with_fields(turn_reward=None)
    with pytest.raises(ObjectiveError, match="turn_advantage reads the field turn_reward, which this batch lacks"):
        added(batch)
