"""Rows of several turns know their turns: what each earned, in which state it began, and who wrote what."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from objectives import Writer
from rlzoo.commands import main
from rlzoo.config import load_config
from rlzoo.files import read_json_lines
from tests.conftest import error_of
from tests.rollout.calling_model import ADDS, save_calling_model
from tests.rollout.test_turns import opened

ENVIRONMENTS = '''
class Earning:
    """Each sum earns a quarter at once, whatever the episode earns in the end; its state is how many there were."""

    turn_reward: float = 0.0
    turn_state = 0

    def reset(self, **columns):
        self.turn_state = 0

    def add(self, a: int, b: int) -> str:
        """Adds.

        Args:
            a: a number.
            b: another one.
        """
        self.turn_reward += 0.25
        self.turn_state += 1
        return "added"

    def fail(self) -> str:
        """Fails."""
        raise ValueError("no such luck")

class Rewarded(Earning):
    def get_reward(self):
        return float(self.turn_state)

class Silent(Earning):
    """Neither a state nor a reward of a turn."""

    @property
    def turn_state(self):
        return object()

    @turn_state.setter
    def turn_state(self, value):
        pass
'''
ROOM = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("credit")
    save_calling_model(folder / "model")
    (folder / "envs.py").write_text(ENVIRONMENTS)
    row = {"prompt": [{"role": "user", "content": "Add up."}]}
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for _ in range(16)))
    return folder


def words(folder: Path, name: str) -> list[str]:
    room = ["rollout.max_prompt_tokens=1000", f"rollout.max_response_tokens={ROOM}", "task.max_turns=4"]
    named = [f"task.environment={folder}/envs.py:{name}", f"task.name={folder}/rows.jsonl"]
    return [f"model.name={folder}/model", *named, *room]


@pytest.fixture(scope="module")
def rewarded(folder: Path) -> Iterator[Any]:
    with opened(load_config([*words(folder, "Rewarded"), "task.reward_weights=[1.0,2.0]"])) as sample:
        graded = sample(0, 4, 4)
        spoken = {
            row: [sample.tokenizer.backend.decode(graded.rollouts.tokens[row, places]) for places in turns.values()]
            for row, turns in ((row, turns_of(graded, row)) for row in range(len(graded.reward)))
        }
        yield SimpleNamespace(**vars(graded), spoken=spoken)


def turns_of(graded: Any, row: int) -> dict[int, torch.Tensor]:
    """Turn -> the positions of its tokens."""
    mask, turn = graded.rollouts.mask[row], graded.credit["turn"][row]
    return {number: (mask & (turn == number)).nonzero()[:, 0] for number in turn[mask].unique().tolist()}


def test_turns_are_what_the_policy_wrote_between_answers(rewarded: Any) -> None:
    for row, turns in enumerate(rewarded.figures["turns"].tolist()):
        tokens = turns_of(rewarded, row)
        assert list(tokens) == list(range(int(turns)))
        assert all((places.diff() == 1).all() for places in tokens.values())
        ends = [places[-1] for places in tokens.values()]
        assert all(not rewarded.rollouts.mask[row, end + 1] for end in ends[:-1])


def test_rewards_of_turns_are_weighed_and_add_up_to_the_rows_with_the_episodes_own_in_the_last(rewarded: Any) -> None:
    counted = 0
    for row, spoken in rewarded.spoken.items():
        tokens = turns_of(rewarded, row).values()
        found = [float(rewarded.credit["turn_reward"][row, places].unique()) for places in tokens]
        assert sum(found) == pytest.approx(float(rewarded.reward[row]))
        answered = [2 * 0.25 * text.count(ADDS) for text in spoken][:-1]
        assert found[:-1] == pytest.approx(answered)
        counted += any(answered)
    assert counted > 0


def test_turns_begin_in_the_state_that_the_class_tells(rewarded: Any) -> None:
    named: dict[int, int] = {}
    for row, spoken in rewarded.spoken.items():
        sums = 0
        for text, places in zip(spoken, turns_of(rewarded, row).values(), strict=True):
            state = int(rewarded.credit["turn_state"][row, places].unique())
            assert named.setdefault(state, sums) == sums
            sums += text.count(ADDS)
    assert len(named) > 1


def test_every_token_has_a_writer(rewarded: Any) -> None:
    rollouts = rewarded.rollouts
    writers = rollouts.writers()
    assert torch.equal(writers == Writer.POLICY, rollouts.mask)
    assert torch.equal((writers != Writer.NONE).sum(1), rollouts.lengths)
    assert torch.equal((writers == Writer.ENVIRONMENT).sum(1).double(), rewarded.figures["tool_tokens"])


SMALL = ["rollout.prompts_per_step=2", "rollout.responses_per_prompt=4", "evaluation.problems=1", "train.steps=1"]


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["gigpo", "reinforce_pp+echo-kl_reward"])
def test_a_run_learns_from_turns_and_from_what_tools_answer(objective: str, folder: Path, tmp_path: Path) -> None:
    keys = [*words(folder, "Earning"), *SMALL, "evaluation.samples=1", f"objective={objective}"]
    assert main(["train", *keys, f"output={tmp_path / 'run'}"]) == 0
    (step,) = read_json_lines(tmp_path / "run" / "metrics.jsonl")
    assert step["gradient_norm"] > 0 and step["sampler/difference"] < 1e-5


def test_a_state_that_nothing_can_be_compared_with_loses_the_episode_and_ends_no_run(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(load_config(words(folder, "Silent"))) as sample:
        graded = sample(0, 1, 2)
    assert set(graded.outcomes) <= {"failed", "truncated"} and not graded.reward.any()
    assert "it must be text, a number, or lists and dictionaries of them" in caplog.text


@pytest.mark.parametrize(
    ("objective", "reads"), [("gigpo", "the rewards and states of turns"), ("echo", "what an environment answers")]
)
def test_what_only_turns_have_is_refused_by_name_where_there_is_one(
    objective: str, reads: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = error_of(capsys, "train", f"objective={objective}", f"output={tmp_path / 'run'}")
    assert reads in error and "task.name=sums is one turn; set task.tools or task.environment" in error
