"""Environments of `verifiers`: the package's own rollout, with turns that rlzoo samples."""

import asyncio
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import verifiers
from verifiers.types import Response, ResponseMessage

from rlzoo.commands import main
from rlzoo.config import TaskConfig, load_config
from rlzoo.errors import UserError
from rlzoo.files import read_json_lines
from rlzoo.tasks import load_task
from rlzoo.tasks.environments import Answer
from rlzoo.tasks.episodes import EpisodePool
from rlzoo.tasks.verifiers import load_verifiers
from tests.environments.package_environments import VERIFIERS
from tests.rollout.calling_model import ADDS, FAILS, MALFORMED, UNKNOWN, save_calling_model
from tests.rollout.episodes import begin, opened, respond

SPECIAL = re.compile(r"<\|im_start\|>|<\|im_end\|>\n?|<eos>\n?|<pad>")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verifiers")
    save_calling_model(folder / "model")
    (folder / "adding.py").write_text(VERIFIERS)
    return folder


def config(folder: Path, kind: str = "tools", function: str = "load_environment", **keys: Any) -> TaskConfig:
    options = {"kind": kind} if function == "load_environment" else {}
    return TaskConfig(name=f"verifiers:{folder}/adding.py:{function}", options=options, **keys)


def words(folder: Path, kind: str) -> list[str]:
    named = [f"task.name=verifiers:{folder}/adding.py:load_environment", f"task.options.kind={kind}"]
    room = ["rollout.max_prompt_tokens=1500", "rollout.max_response_tokens=200"]
    return [f"model.name={folder}/model", *named, *room]


@contextmanager
def begun(task: TaskConfig, count: int = 1) -> Iterator[EpisodePool]:
    """Episodes of the first problem, each with its own seed."""
    with EpisodePool.of(task) as episodes:
        assert [it.text for it in begin(episodes, [load_task(task).train[0]] * count, range(count))] == [""] * count
        yield episodes


@pytest.mark.parametrize("kind", ["tools", "turns"])
def test_two_steps_train(kind: str, folder: Path, tmp_path: Path) -> None:
    keys = [*words(folder, kind), "rollout.prompts_per_step=2", "rollout.responses_per_prompt=4", "seed=3"]
    keys += ["evaluation.problems=1", "evaluation.samples=1", "objective=reinforce_pp"]
    assert main(["train", *keys, "train.steps=2", f"output={tmp_path / 'run'}"]) == 0
    first, second = read_json_lines(tmp_path / "run" / "metrics.jsonl")
    assert first["turns"] > 1 and first["gradient_norm"] > 0 and first["sampler/difference"] < 1e-5
    assert first["grading_failed"] == second["grading_failed"] == 0
    assert (first["tool_calls"] > 0) == (kind == "tools") and first["tool_tokens"] > 0


@pytest.mark.parametrize("max_turns", [8, 2])
def test_what_the_environment_says_is_context_and_it_hears_each_turn_to_the_last(max_turns: int, folder: Path) -> None:
    with opened(load_config([*words(folder, "turns"), f"task.max_turns={max_turns}"])) as sample:
        graded = sample(0, 2, 4)
    rollouts, backend, ended = graded.rollouts, sample.tokenizer.backend, 0
    for row, transcript in enumerate(graded.transcripts):
        parts = transcript.split("<|im_start|>user\n")
        said = [part.partition("<|im_end|>")[0] for part in parts[1:]]
        context = rollouts.tokens[row][: int(rollouts.lengths[row])][~rollouts.mask[row][: int(rollouts.lengths[row])]]
        assert all(text in backend.decode(context.tolist()) for text in said)
        assert not said or said[0].startswith("cold 1 ")
        turns = [SPECIAL.sub("", part.rpartition("<|im_start|>assistant\n")[2]) for part in parts]
        if not rollouts.truncated[row]:
            assert len(turns) == min(4, max_turns)  # it has heard enough after the third, and asks once more
            assert graded.reward[row] == pytest.approx(sum(map(len, turns[:3])) / 100)
            ended += 1
    assert rollouts.mask.sum() < rollouts.lengths.sum() and ended


class Scripted(verifiers.OpenAIChatCompletionsClient):
    """A model that says what it is told to."""

    def __init__(self, turns: list[str]) -> None:
        super().__init__(None)
        self.turns = iter(turns)

    async def get_response(self, *_: Any, **__: Any) -> Response:
        message = ResponseMessage(content=next(self.turns), finish_reason="stop", is_truncated=False)
        return Response(id="1", created=0, model="scripted", message=message)


def test_an_episode_is_the_packages_own_rollout(folder: Path) -> None:
    turns, task = ["warm?", "colder", "well", "enough"], config(folder, "turns")
    row = load_task(task).train[0]
    environment = load_verifiers(task.name, task.options).environment
    columns = {"prompt": row.prompt, **row.data["row"]["columns"]}
    output = asyncio.run(environment.run_rollout(columns, Scripted(turns), "scripted", {}))
    spoken = [message.content for message in output["completion"] if message.role == "user"]
    with begun(task) as episodes:
        answers = [respond(episodes, [(0, turn)])[0] for turn in turns]
        assert [answer.role for (answer,) in answers[:3]] == ["user"] * 3 and answers[3] == []
        assert [answer.text.split()[:2] for (answer,) in answers[:3]] == [text.split()[:2] for text in spoken]
        assert episodes.grade(["enough"])[0].grade.reward == output["reward"] == sum(map(len, turns[:3])) / 100


def test_calls_reach_the_environments_tools_and_what_is_wrong_with_one_goes_back_as_text(folder: Path) -> None:
    with begun(config(folder), 3) as episodes:
        (answers,) = respond(episodes, [(0, f"So {ADDS}{MALFORMED}{FAILS}{ADDS}")])
        assert [answer.text.split(":")[0] for answer in answers] == ["5", "error", "no such luck", "5"]
        assert [answer.is_error for answer in answers] == [False, True, True, False]
        (answers,) = respond(episodes, [(1, UNKNOWN)])
        assert [(it.is_error, "did you mean add" in it.text) for it in answers] == [(True, True)]
        assert respond(episodes, [(0, "Five."), (1, ADDS)]) == [[], [Answer("5")]]
        assert respond(episodes, [(2, ADDS)], is_truncated=True) == [[]]
        # Two answers and two turns; one turn, as the package's rubric sees no answer behind the last; one that was cut.
        assert [it.grade.reward for it in episodes.grade([""] * 3)] == [2.5, 0.25, 0.25]


def test_an_environment_that_fails_or_rewrites_what_was_said_loses_its_episode_alone(folder: Path) -> None:
    for kind in ("failing", "rewriting"):
        with begun(config(folder, kind), 2) as episodes:
            assert respond(episodes, [(0, "warm?")]) == [[]]
            assert [it.outcome for it in episodes.grade(["", ""])] == ["failed", "graded"]


def test_held_out_are_the_evaluation_dataset_or_a_part_of_the_other(folder: Path) -> None:
    task = load_task(config(folder))
    assert len(task.train) == 21 and len(task.held_out) == 3
    has_other = config(folder)
    has_other.options["has_eval"] = True
    assert len(load_task(has_other).held_out) == 2
    assert load_task(has_other).held_out[0].prompt[0] == {"role": "system", "content": "Add."}


def test_what_cannot_be_used_is_one_line_and_signals_are_handled_as_before(folder: Path) -> None:
    wrong = {
        "load_group_scored": "its rubric scores whole groups",
        "load_nothing": "returned a NoneType, and no environment",
        "load_environmen": "has no load_environmen; did you mean load_environment",
    }
    handler = signal.getsignal(signal.SIGTERM)
    for name, told in wrong.items():
        with pytest.raises(UserError, match=told):
            EpisodePool.of(config(folder, function=name))
    with pytest.raises(UserError, match="load_environment failed: KeyError"):
        EpisodePool.of(config(folder, "no such kind"))
    with pytest.raises(UserError, match=r"No module named 'no_such'; go to the folder where no_such lies"):
        EpisodePool.of(TaskConfig(name="verifiers:somebody/no-such"))
    EpisodePool.of(config(folder))
    assert signal.getsignal(signal.SIGTERM) is handler
