"""OpenEnv servers as environments: real ones, started here, and what becomes of episodes when they fail."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import requests

from rlzoo.commands import main
from rlzoo.config import TaskConfig
from rlzoo.errors import UserError
from rlzoo.files import read_json_lines
from rlzoo.tasks.base import Problem
from rlzoo.tasks.environment_class import tool_schemas
from rlzoo.tasks.environments import Turn
from rlzoo.tasks.episodes import EpisodePool
from tests.environments.package_environments import OPENENV
from tests.rollout.calling_model import save_calling_model
from tests.rollout.episodes import begin, make_calls

PROBLEM = Problem("1", "Add up.", "5", {"kind": "sum"})


def free_port() -> int:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def served(folder: Path, kind: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server of that kind: its address and its process."""
    (folder / "serve.py").write_text(OPENENV)
    port = free_port()
    server = subprocess.Popen([sys.executable, "serve.py", kind, str(port)], cwd=folder)
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                requests.get(f"http://127.0.0.1:{port}/health", timeout=1).raise_for_status()
                break
            except requests.RequestException:
                assert server.poll() is None and time.monotonic() < deadline
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}", server
    finally:
        server.kill()
        server.wait()


@pytest.fixture(scope="module", params=["adding", "listing"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, Path]]:
    """The kind of a server, its address, and its folder."""
    folder = tmp_path_factory.mktemp(request.param)
    with served(folder, request.param) as (address, _):
        yield request.param, address, folder


def config(address: str, timeout: float = 20.0) -> TaskConfig:
    return TaskConfig(environment=f"openenv:{address}", tool_timeout=timeout)


def call(kind: str, a: int, b: int = 3) -> str:
    return json.dumps({"name": "step" if kind == "adding" else "add", "arguments": {"a": a, "b": b}})


def test_what_a_server_takes_is_what_the_model_is_told(server: tuple[str, str, Path]) -> None:
    kind, address, _ = server
    (schema,) = tool_schemas(config(address))
    function = schema["function"]
    assert function["name"] == ("step" if kind == "adding" else "add")
    assert function["description"] == "Adds two numbers."
    assert set(function["parameters"]["properties"]) == set(function["parameters"]["required"]) == {"a", "b"}


def test_calls_are_steps_of_a_session_of_its_own_and_errors_go_back_as_text(server: tuple[str, str, Path]) -> None:
    kind, address, folder = server
    with EpisodePool.of(config(address)) as episodes:
        shown = [answer.text for answer in begin(episodes, [PROBLEM] * 3, [1, 1, 2])]
        if kind == "adding":
            assert shown[0] == shown[1] != shown[2] and shown[0].startswith('\n{"sum": 0, "secret": ')
        else:
            assert shown == ["", "", ""]
        ((first, error, second), (other,)) = make_calls(
            episodes, [(0, [call(kind, 2), call(kind, 500), call(kind, 4)]), (1, [call(kind, 2)])]
        )
        assert error.is_error and "five hundred" in error.text
        sums = [json.loads(it.text) for it in (first, second, other)]
        assert [it["sum"] if kind == "adding" else it for it in sums] == [5, 7, 5]
        rewards = [0.5, 0.25, 0.0] if kind == "adding" else [0.0] * 3
        if kind == "adding":
            wrong = '{"name": "step", "arguments": {"a": "x"}}'
            text = "".join(f"<tool_call>{it}</tool_call>" for it in (wrong, call(kind, 2), call(kind, 2)))
            step = episodes.step({1: Turn(text)})[1]
            assert [it.is_error for it in step.answers] == [True, False, False]
            assert step.is_over and step.reward == 0.5, "a turn earns what its steps have given"
            step = episodes.step({1: Turn(text)})[1]
            assert all(it.is_error for it in step.answers) and "the episode is over" in step.answers[1].text
            assert step.reward == 0.0
            rewards[1] = 0.75
        assert [it.grade.reward for it in episodes.grade([""] * 3)] == rewards
    if kind == "adding":
        deadline = time.monotonic() + 10
        while len((folder / "closed").read_text()) < 3:  # the server has been told that the sessions are over
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_two_steps_train(server: tuple[str, str, Path], tmp_path: Path) -> None:
    kind, address, _ = server
    calls = [f"<tool_call>{call(kind, a)}</tool_call>" for a in (2, 500)]
    save_calling_model(tmp_path / "model", calls)
    row = {"prompt": [{"role": "user", "content": "Add up."}]}
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for _ in range(8)))
    (tmp_path / "length.py").write_text(
        "def reward(environments, completions, **_):\n    return [len(completions[0][0]['content']) / 100]\n"
    )
    keys = [f"model.name={tmp_path}/model", f"task.name={tmp_path}/rows.jsonl", f"task.environment=openenv:{address}"]
    keys += ["rollout.prompts_per_step=2", "rollout.responses_per_prompt=4", "objective=reinforce_pp", "seed=3"]
    keys += ["rollout.max_prompt_tokens=1500", "rollout.max_response_tokens=200", "task.max_turns=3"]
    keys += [f"task.reward={tmp_path}/length.py:reward", "evaluation.problems=1", "evaluation.samples=1"]
    assert main(["train", *keys, "train.steps=2", f"output={tmp_path / 'run'}"]) == 0
    first, second = read_json_lines(tmp_path / "run" / "metrics.jsonl")
    assert first["turns"] > 1 and first["tool_calls"] > 0 and first["gradient_norm"] > 0
    assert first["grading_failed"] == second["grading_failed"] == 0 and first["sampler/difference"] < 1e-5


def test_a_server_that_is_slow_or_goes_down_loses_episodes_and_ends_nothing(tmp_path: Path) -> None:
    with (
        served(tmp_path, "adding") as (address, process),
        EpisodePool.of(config(address, timeout=3.0)) as episodes,
    ):
        begin(episodes, [PROBLEM] * 3, [1] * 3)
        ((slow,), (other,)) = make_calls(episodes, [(0, [call("adding", 99)]), (1, [call("adding", 2)])])
        assert slow.text == "error: it took more than 3 seconds" and not other.is_error
        process.kill()
        process.wait()
        ((down,),) = make_calls(episodes, [(1, [call("adding", 2)])])
        assert down.is_error and "Connection" in down.text
        graded = episodes.grade([""] * 3)
        assert graded[0].outcome == "failed" and graded[0].grade.reward == 0.0
        assert graded[1].grade.reward == 0.25  # what it had earned
        assert [it.is_error for it in begin(episodes, [PROBLEM], [1])] == [True]


class Broken(BaseHTTPRequestHandler):
    """Answers everything with 500."""

    def do_GET(self) -> None:
        self.send_error(500)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_a_server_that_is_not_there_or_broken_is_one_line_before_anything_is_loaded() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(UserError, match=rf"task\.environment=openenv:{address}: no OpenEnv server answers there"):
        EpisodePool.of(config(address))
    with HTTPServer(("127.0.0.1", 0), Broken) as broken:
        Thread(target=broken.handle_request, daemon=True).start()
        with pytest.raises(UserError, match="as it should: 500 Server Error"):
            EpisodePool.of(config(f"http://127.0.0.1:{broken.server_port}"))
    with pytest.raises(UserError, match="no OpenEnv server answers there"):
        EpisodePool.of(config("somewhere"))
