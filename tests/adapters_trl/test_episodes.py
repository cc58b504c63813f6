"""The law of episodes: a class written for TRL holds the same ones in our own trainer, and teach the same there."""

from collections.abc import Iterator

import pytest
import torch

from objectives import ObjectiveError
from objectives.adapters.trl import ZooGRPOTrainer
from rlzoo.training.step import StepRollouts
from tests.adapters_trl.episodes import MINIBATCHES, PROBLEMS, SIZE, Rig, rig

TOLERANCE = 1e-5
TOUCHING = {"grpo": "clip", "dapo": "soft_overlong", "stapo+s2t(tau_p=0.05)": "s2t", "gspo": "clip"}
"""Objectives, each with a part that acts in these episodes: no token of a tiny random model is rarer than 0.002."""


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig(tmp_path_factory.mktemp("game")) as opened:
        yield opened


Row = tuple[list[int], list[bool]]
"""All tokens of a conversation, and which of them the policy chose."""


def rows_of_trl(peer: ZooGRPOTrainer) -> list[Row]:
    tokens, batch = peer._tokens, peer._rollout_step.passes[0]
    assert tokens is not None
    rows = []
    for number, mask in enumerate(batch.mask):
        parts = [
            tokens[f"{part}_ids"][number][tokens[f"{part}_mask"][number].bool()] for part in ("prompt", "completion")
        ]
        chosen = [False] * len(parts[0]) + mask[: len(parts[1])].tolist()
        rows.append((torch.cat(parts).tolist(), chosen))
    return rows


def rows_of_ours(collected: StepRollouts) -> list[Row]:
    rollouts = collected.rollouts
    rows = []
    for number, prompt in enumerate(rollouts.prompt_tokens()):
        length = int(rollouts.lengths[number])
        written = rollouts.tokens[number, :length].tolist()
        rows.append(([*prompt, *written], [False] * len(prompt) + rollouts.mask[number, :length].tolist()))
    return rows


def test_a_class_written_for_trl_holds_the_same_episodes_here(game: Rig) -> None:
    peer, _ = game.theirs("grpo")
    collected = game.collected("grpo")
    theirs, ours = rows_of_trl(peer), rows_of_ours(collected)
    assert theirs == ours and len(ours) == PROBLEMS * SIZE
    batch, graded = peer._rollout_step.passes[0], collected.batch
    assert graded.rewards is not None and torch.equal(peer._rewards, graded.rewards)
    for name in ("reward", "correct", "truncated", "length"):
        assert torch.equal(getattr(batch, name), getattr(graded, name)), name
    # In two rows of each group at least the policy goes on behind what it was answered.
    holes = [not all(chosen[chosen.index(True) :]) for _, chosen in ours]
    assert sum(holes[:SIZE]) >= 2 and sum(holes[SIZE:]) >= 2
    assert graded.rewards.tolist() == [
        [1, 3 / 8],
        [0, 1 / 8],
        [0, 0],
        [0, 1 / 8],
        [0, 0],
        [1, 1 / 8],
        [0, 2 / 8],
        [0, 1 / 8],
    ]
    assert graded.truncated is not None and graded.truncated.nonzero()[:, 0].tolist() == [1, 3]


@pytest.mark.parametrize("objective", TOUCHING)
def test_an_objective_has_the_gradient_of_our_own_trainer_on_episodes(game: Rig, objective: str) -> None:
    names, sizes = zip(*((name, value.numel()) for name, value in game.model().named_parameters()), strict=True)
    ours, (peer, theirs) = game.ours(objective), game.theirs(objective)
    assert len(ours) == len(theirs) == MINIBATCHES
    assert any(step.get(f"touched/{TOUCHING[objective]}/tokens", 0) > 0 for step in peer.state.log_history)
    found = {}
    for update, pair in enumerate(zip(ours, theirs, strict=True)):
        for name, one, other in zip(names, *(gradient.split(sizes) for gradient in pair), strict=True):
            found[update, name] = float((one - other).norm() / one.norm())
    assert max(found.values()) <= TOLERANCE, found


def test_the_reward_of_an_environment_counts_where_one_is_to_be_named_as_correctness(game: Rig) -> None:
    with pytest.raises(ObjectiveError, match=r"name the reward function by correct="):
        game.trainer("dapo", game.model())
