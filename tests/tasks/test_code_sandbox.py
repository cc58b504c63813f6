"""The tool of examples/ that has a sandbox run code: what it asks and answers, and that no server stalls a run."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from rlzoo.commands import main
from rlzoo.config import TaskConfig, load_config
from rlzoo.files import read_json_lines
from rlzoo.tasks.base import Problem
from rlzoo.tasks.environments import Answer
from rlzoo.tasks.outside import load_outside
from rlzoo.tasks.tools import ToolPool, load_tools
from tests.rollout.calling_model import save_calling_model
from tests.rollout.episodes import begin, make_calls

ROOT = Path(__file__).parents[2]
WRITTEN = f"{ROOT / 'examples' / 'code_sandbox.py'}:code_interpreter"
RIGHT = "import sys\nprint(6 * 7)\nsys.exit('no')"
LATE = {"status": "Failed", "run_result": {"status": "TimeLimitExceeded", "stdout": "1\n", "stderr": ""}}
BROKEN = {"status": "SandboxError", "message": "no room", "run_result": None}
HANGS = threading.Event()
"""Set when a server that says nothing may end."""


def finished(stdout: str | None, stderr: str | None = "") -> bytes:
    """What SandboxFusion says of a program that came to its end."""
    ran = {"status": "Finished", "return_code": 0, "stdout": stdout, "stderr": stderr}
    return json.dumps({"status": "Success", "message": "", "compile_result": None, "run_result": ran}).encode()


ANSWERS = {
    RIGHT: finished("42\n", "no\n"),
    "quiet": finished(None, None),
    "much": finished("a" * 1000 + "b" * 2**20),
    "late": json.dumps(LATE).encode(),
    "broken": json.dumps(BROKEN).encode(),
    "another server": b"<html>welcome</html>",
    "another form": b'{"run_result": {"status": "Finished", "stdout": 1}}',
    "endless": b"1" * 17 * 2**20,
}
"""By the code that is asked to be run."""


class Sandbox(BaseHTTPRequestHandler):
    """Stands in for the server; it runs nothing."""

    asked: ClassVar[list[tuple[str, dict[str, Any]]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((self.path, body))
        if body["code"] == "hangs":
            HANGS.wait(30)
        answer = ANSWERS.get(body["code"], b"")
        with suppress(OSError):  # who asked may have gone
            self.send_response(302 if body["code"] == "elsewhere" else 200 if answer else 503)
            self.send_header("Location", "/run_code")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Sandbox) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        HANGS.set()
        server.shutdown()


@pytest.fixture
def pool(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ToolPool]:
    monkeypatch.setenv("SANDBOX_URL", f"{url}/")
    with ToolPool(load_tools(TaskConfig(tools=[WRITTEN])), 1, 2.0) as pool:
        begin(pool, [Problem("1", "", "")] * 8, range(8))
        yield pool


def asks_for(*codes: str) -> list[str]:
    """Calls that ask for these to be run."""
    return [json.dumps({"name": "code_interpreter", "arguments": {"code": code}}) for code in codes]


def answers_of(pool: ToolPool, *codes: str) -> list[Answer]:
    """The answers to calls that ask for these to be run, each in a row of its own."""
    return [answer for (answer,) in make_calls(pool, [(row, [it]) for row, it in enumerate(asks_for(*codes))])]


def test_code_is_sent_with_its_limits_and_what_it_wrote_comes_back_errors_last(pool: ToolPool) -> None:
    Sandbox.asked.clear()
    answers = answers_of(pool, RIGHT, "quiet")
    assert [(it.text, it.is_error) for it in answers] == [("42\nno\n", False), ("", False)]
    path, asked = Sandbox.asked[0]
    assert path == "/run_code"
    assert asked == {"code": RIGHT, "language": "python", "run_timeout": 30, "memory_limit_MB": 1024}


def test_whatever_goes_wrong_with_a_sandbox_is_one_line_to_the_model(pool: ToolPool, url: str) -> None:
    told = {
        "late": "the program took more than 30 seconds",
        "broken": "the sandbox did not run the program: no room",
        "another server": f"{url}/run_code is no SandboxFusion: it says b'<html>welcome</html>'",
        "another form": "is no SandboxFusion",
        "unknown": f"the sandbox at {url}/run_code fails: HTTP Error 503: Service Unavailable",
        "elsewhere": f"the sandbox at {url}/run_code fails: HTTP Error 302: Found",
        "endless": "it says more than 16,777,216 bytes",
        "hangs": "the tool took more than 2 seconds",
    }
    for answer, part in zip(answers_of(pool, *told), told.values(), strict=True):
        assert answer.is_error and part in answer.text and "\n" not in answer.text


def test_a_sandbox_that_is_not_there_or_says_nothing_is_named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = load_outside("task.tools", WRITTEN)
    monkeypatch.setitem(run.__globals__, "WAIT_SECONDS", 0.2)
    monkeypatch.setenv("SANDBOX_URL", url)
    started = time.monotonic()
    with pytest.raises(ConnectionError, match=f"the sandbox at {url}/run_code fails: timed out"):
        run("hangs")
    assert time.monotonic() - started < 5
    monkeypatch.setenv("SANDBOX_URL", "http://127.0.0.1:9")
    with pytest.raises(ConnectionError, match=r"the sandbox at http://127.0.0.1:9/run_code fails: .*refused"):
        run(RIGHT)
    monkeypatch.setenv("SANDBOX_URL", "myhost")
    with pytest.raises(ConnectionError, match="the sandbox at myhost/run_code fails: unknown url type"):
        run(RIGHT)


@pytest.mark.slow
def test_a_run_has_the_sandbox_run_what_its_model_writes(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDBOX_URL", url)
    Sandbox.asked.clear()
    save_calling_model(tmp_path / "model", [f"<tool_call>{call}</tool_call>" for call in asks_for(RIGHT)])
    small = ["rollout.prompts_per_step=2", "rollout.responses_per_prompt=4", "rollout.max_response_tokens=400"]
    few = ["train.steps=1", "evaluation.every=0", "evaluation.problems=2", "evaluation.samples=1"]
    words = [f"model.name={tmp_path}/model", f"task.tools=[{WRITTEN}]", *small, *few, f"output={tmp_path}/run"]
    assert main(["train", *words]) == 0
    (line,) = read_json_lines(tmp_path / "run" / "metrics.jsonl")
    assert line["tool_calls"] > 0 and line["tool_errors"] == 0
    assert {asked["code"] for _, asked in Sandbox.asked} == {RIGHT}


def test_of_much_output_the_model_reads_the_beginning_and_the_end(pool: ToolPool) -> None:
    (answer,) = answers_of(pool, "much")
    assert answer.text == "a" * 128 + "...(truncated)..." + "b" * 128 and not answer.is_error


def test_a_long_program_ends_by_its_own_limit_and_a_server_that_hangs_by_that_of_calls() -> None:
    constants = load_outside("task.tools", WRITTEN).__globals__
    config = load_config([str(ROOT / "configs" / "stare_tools_qwen2.5_7b.yaml")])
    assert constants["RUN_SECONDS"] < config.task.tool_timeout < constants["WAIT_SECONDS"]
    assert [Path(it).name for it in config.task.tools] == [Path(WRITTEN).name]


def test_the_model_is_told_of_it_in_verls_words() -> None:
    (tool,) = load_tools(TaskConfig(tools=[WRITTEN]))
    code = {"type": "string", "description": "The code to execute."}
    assert tool.schema()["function"] == {
        "name": "code_interpreter",
        "description": "A tool for executing code.",
        "parameters": {"type": "object", "properties": {"code": code}, "required": ["code"]},
        "return": {"type": "string"},
    }
