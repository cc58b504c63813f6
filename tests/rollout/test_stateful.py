"""Rows with `task.environment`: what reset shows is context, groups are told apart, and seeds hold in a run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from rlzoo.commands import main
from rlzoo.config import load_config
from rlzoo.files import read_json_lines
from tests.conftest import error_of
from tests.processes import ONE, TWO, launch
from tests.rollout.calling_model import save_calling_model
from tests.rollout.episodes import ENVIRONMENTS
from tests.rollout.test_turns import opened

ROOM = 400
FIGURES = ("turns", "tool_calls", "tool_errors", "tool_tokens", "reward", "length", "gradient_norm", "grading_failed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model that calls, the environments, and a dataset as TRL's examples have it."""
    folder = tmp_path_factory.mktemp("episodes")
    save_calling_model(folder / "model")
    (folder / "envs.py").write_text(ENVIRONMENTS)
    row = {"prompt": [{"role": "user", "content": "Add up."}]}
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for _ in range(24)))
    return folder


def words(folder: Path, name: str, *rewards: str) -> list[str]:
    room = ["rollout.max_prompt_tokens=1000", f"rollout.max_response_tokens={ROOM}", "task.max_turns=4"]
    named = [f"task.environment={folder}/envs.py:{name}", f"task.name={folder}/rows.jsonl"]
    rewards_named = [f"task.reward=[{','.join(f'{folder}/envs.py:{reward}' for reward in rewards)}]"] if rewards else []
    return [f"model.name={folder}/model", *named, *rewards_named, *room]


@pytest.fixture(scope="module")
def showing(folder: Path) -> Iterator[Any]:
    with opened(load_config(words(folder, "Showing"))) as sample:
        yield sample


@pytest.mark.slow
def test_what_reset_shows_ends_the_last_message_of_the_prompt_and_is_no_token_of_the_policy(showing: Any) -> None:
    graded = showing(0, 4, 3)
    rollouts, backend = graded.rollouts, showing.tokenizer.backend
    shown = []
    for row, (tokens, mask) in enumerate(zip(rollouts.tokens, rollouts.mask, strict=True)):
        first = int(mask.nonzero()[0])
        prompt = backend.decode([*rollouts.prompt_tokens()[row], *tokens[:first].tolist()])
        secret = prompt.rpartition("The secret is ")[2].partition(".")[0]
        whole = [{"role": "user", "content": f"Add up. The secret is {secret}."}]
        assert prompt == backend.decode(showing.tokenizer.encode(whole))
        assert not rollouts.logp[row, :first].any() and mask[first]
        shown.append(secret)
    groups = [shown[first : first + 3] for first in range(0, 12, 3)]
    assert [len(set(group)) for group in groups] == [1] * 4 and len(set(shown)) == 4
    # The reward counts the episode's own calls, and its tool sees the secret that reset has shown.
    for row, transcript in enumerate(graded.transcripts):
        answers = transcript.split("tool\n")[1:]
        sums = [float(it.split()[0]) for it in answers if shown[row] in it]
        assert sums == [0.25 * (number + 1) for number in range(len(sums))]
        if not rollouts.truncated[row]:  # which may be for the last answer, of which the row has no token
            assert graded.reward[row] == 0.25 * len(sums)
    assert graded.reward.unique().numel() > 2 and not rollouts.truncated.all()


@pytest.mark.slow
def test_one_pass_over_an_episode_gives_the_log_probs_that_were_sampled(folder: Path) -> None:
    with opened(load_config(words(folder, "Differing"))) as sample:
        rollouts = sample(0, 3, 4).rollouts
        found = sample.policy(rollouts.responses(), 1.0, with_entropy=True)
    mask = rollouts.mask[:, : found.logp.shape[1]]
    torch.testing.assert_close(found.logp[mask], rollouts.logp[:, : mask.shape[1]][mask], rtol=0, atol=1e-5)
    starts = {tuple(tokens[:30].tolist()) for tokens in rollouts.tokens[:4]}
    assert len(starts) == 4, "reset shows each episode of the group something else, and the test says little"


def test_an_episode_is_the_same_whatever_other_rows_there_are(showing: Any) -> None:
    assert showing(0, 4, 3).transcripts[6:] == showing(2, 2, 3).transcripts


def test_what_reset_shows_leaves_room_for_a_token_of_the_policy(folder: Path) -> None:
    with opened(load_config(words(folder, "Hostile"))) as sample:
        rollouts = sample(0, 2, 2).rollouts
    assert rollouts.lengths.eq(ROOM).all() and rollouts.mask.sum(1).eq(1).all() and rollouts.mask[:, -1].all()


@pytest.mark.slow
def test_no_turn_follows_behind_the_call_that_makes_an_episode_done(folder: Path) -> None:
    with opened(load_config(words(folder, "Ending"))) as ending, opened(load_config(words(folder, "Showing"))) as other:
        ended, going = ending(0, 6, 4), other(0, 6, 4)
    over = 0
    for row, reward in enumerate(ended.reward.tolist()):
        assert going.transcripts[row].startswith(ended.transcripts[row])
        calls = ended.figures["tool_calls"][row], going.figures["tool_calls"][row]
        assert calls[0] == calls[1] or reward > 0, "only what is over is cut short"
        over += reward > 0 and ended.figures["turns"][row] < going.figures["turns"][row]
        last = ended.rollouts.lengths[row] - 1
        assert ended.rollouts.mask[row, last], "what is answered to the last turn is no part of the row"
    assert over >= 2, "few episodes end before the policy does, and the test says little"
    assert not ended.rollouts.truncated[ended.reward > 0].any()


@pytest.mark.slow
def test_a_turn_that_calls_nothing_is_answered_by_the_user_whom_a_class_plays(folder: Path) -> None:
    with opened(load_config([*words(folder, "Asking"), "task.max_turns=8"])) as sample:
        graded = sample(0, 4, 4)
    asked = 0
    for row, transcript in enumerate(graded.transcripts):
        said = transcript.count("<|im_start|>user\nAnd ")
        assert transcript.count("<|im_start|>user\nAnd 1?") == (said > 0)
        if not graded.rollouts.truncated[row]:
            assert graded.reward[row] - 1 <= said <= graded.reward[row]
        called = transcript.count("<tool_call>") - transcript.count("</tool_call>")
        assert called == 0 and graded.figures["tool_calls"][row] <= transcript.count("<tool_call>")
        asked += said
    assert asked >= 4 and graded.figures["tool_calls"].sum() > 0 and graded.reward.max() >= 2.0


SMALL = ["rollout.prompts_per_step=2", "rollout.responses_per_prompt=4", "evaluation.problems=1", "seed=3"]
SMALL += ["rollout.max_response_tokens=150", "task.max_turns=3"]


@pytest.mark.smoke
@pytest.mark.slow
@pytest.mark.parametrize("rewards", [("Counting", "reward_func"), ("Differing",)], ids=lambda it: it[0])
def test_a_run_as_trl_writes_it_trains_and_a_resumed_one_has_the_same_episodes(
    rewards: tuple[str, ...], folder: Path, tmp_path: Path
) -> None:
    keys = [*words(folder, *rewards), *SMALL, "evaluation.samples=1", "objective=reinforce_pp"]
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    assert main(["train", *keys, "train.steps=2", f"output={whole}"]) == 0
    if rewards[0] == "Differing":  # shows the number of its process, which no seed decides
        assert read_json_lines(whole / "metrics.jsonl")[0]["gradient_norm"] > 0
        return
    assert main(["train", *keys, "train.steps=1", f"output={resumed}"]) == 0
    assert main(["train", *keys, "train.steps=2", f"output={resumed}", "resume=true"]) == 0
    first, second = (read_json_lines(path / "metrics.jsonl") for path in (whole, resumed))
    for name in FIGURES:
        assert [step[name] for step in first] == [step[name] for step in second], name
    assert first[0]["turns"] > 1 and first[0]["gradient_norm"] > 0 and first[0]["sampler/difference"] < 1e-5


@pytest.mark.slow
def test_what_cannot_be_had_with_an_episode_is_refused_by_name(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = [*words(folder, "Showing"), *SMALL, "evaluation.samples=1", "objective=reinforce_pp", "train.steps=1"]
    assert main(["train", *keys, f"output={tmp_path / 'run'}"]) == 0
    (kept,) = (tmp_path / "run" / "evaluation").glob("step-000001*.jsonl")
    capsys.readouterr()
    assert "is not obeyed" in error_of(capsys, "grade", "regrade=true", kept)
    told = error_of(capsys, "grade", "regrade=true", kept, f"trust={kept}")
    assert "cannot be graded again: the rewards of" in told and "rlzoo eval samples and grades again" in told
    told = error_of(capsys, "train", *keys, "rollout.ahead=1")
    assert "rollout.ahead=1: the environment of" in told and "leave rollout.ahead out" in told
    assert main(["task", *words(folder, "Showing"), "rollout.responses_per_prompt=2"]) == 0


@pytest.mark.exhaustive
def test_two_processes_hold_the_episodes_of_one(folder: Path, tmp_path: Path) -> None:
    keys = [*words(folder, "Showing"), *SMALL, "train.steps=2", "objective=grpo-kl", "evaluation.samples=1"]
    for name, launcher in (("one", ONE), ("two", TWO)):
        launch([*launcher, "-m", "rlzoo", "train", *keys, f"output={tmp_path / name}"])
    one, two = (read_json_lines(tmp_path / name / "metrics.jsonl") for name in ("one", "two"))
    for alone, together in zip(one, two, strict=True):
        assert alone["turns"] > 1 and alone["gradient_norm"] > 0
        for name in FIGURES:
            assert together[name] == pytest.approx(alone[name], rel=1e-4), name
