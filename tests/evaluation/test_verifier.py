"""A verifier behind a real server judges what the rules refuse, and both scores are shown."""

import io
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rlzoo.config import RegradeConfig, VerifierConfig
from rlzoo.evaluation.evaluate_target import evaluate_target
from rlzoo.evaluation.kept import read_results
from rlzoo.evaluation.regrade import regrade
from rlzoo.evaluation.target import read_target
from rlzoo.evaluation.verifier import verdict
from rlzoo.files import read_json_lines, write_json_lines
from rlzoo.report.terminal import Terminal
from tests.conftest import error_of


@dataclass
class Server:
    """An OpenAI-compatible endpoint that accepts a student who wrote what it likes, and remembers what it was asked."""

    likes: str = "nothing"
    fails_after: int = 1000
    asked: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.asked.append(body)
            prompt = body["messages"][0]["content"]
            letter = "A" if state.likes in prompt else "B"
            reply = json.dumps({"choices": [{"message": {"content": letter}}]}).encode()
            found = self.path == "/v1/chat/completions" and len(state.asked) <= state.fails_after
            self.send_response(200 if found else 500)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: object) -> None:
            pass

    class Patient(ThreadingHTTPServer):
        request_queue_size = 64

    http = Patient(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{http.server_port}/v1"
    threading.Thread(target=http.serve_forever, daemon=True).start()
    yield state
    http.shutdown()
    http.server_close()


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The responses of an evaluation of the embedded model; the last was cut short."""
    words = (f"output={tmp_path / 'out'}", "evaluation.problems=8", "evaluation.samples=4")
    (path,) = evaluate_target(read_target("embedded:sums", words), Terminal(Console(quiet=True)))
    records = read_json_lines(path)
    assert {record["correct"] for record in records} == {0.0, 1.0}
    write_json_lines(path, [*records[:-1], {**records[-1], "outcome": "truncated", "correct": 0.0}])
    return path


def verifying(server: Server, **keys: Any) -> RegradeConfig:
    return RegradeConfig(verifier=VerifierConfig(url=server.url, model="judge", **keys))


def words_for(server: Server, *further: str) -> list[str]:
    return [f"verifier.url={server.url}", "verifier.model=judge", *further]


def test_the_verifier_judges_what_the_rules_refuse_and_can_only_raise_the_score(kept: Path, server: Server) -> None:
    wrong = next(record for record in read_json_lines(kept) if record["correct"] == 0)
    server.likes = (
        f"{wrong['problem']}\n\nStandard answer:\n{wrong['answer']}\n\nThe student wrote:\n{wrong['response']}\n"
    )
    console = Console(width=80, record=True, file=io.StringIO())
    (path,) = regrade([kept], verifying(server), Terminal(console))
    records = read_json_lines(path)
    asked = {(record["problem"], record["response"]) for record in records if record["verdict"] is not None}
    refused = [record for record in records[:-1] if record["correct"] == 0]
    assert asked == {(record["problem"], record["response"]) for record in refused}
    assert len(server.asked) == len(asked), "equal answers are judged once"
    assert all(body["temperature"] == 0 and body["model"] == "judge" for body in server.asked)
    same = [
        record for record in refused if (record["problem"], record["response"]) == (wrong["problem"], wrong["response"])
    ]
    assert sum(r["verified"] for r in records) == sum(r["correct"] for r in records) + len(same) > 0
    assert records[-1]["verified"] == 0 and records[-1]["verdict"] is None, "what was cut earns nothing"
    summary = read_results(path.parent)[path.stem]["figures"]
    assert summary["verified"]["by"] == "judge"
    assert summary["verified"]["accuracy"] == pytest.approx(summary["accuracy"] + len(same) / len(records))
    assert "rules or judge" in console.export_text()


def test_what_was_judged_is_not_judged_again(kept: Path, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.fails_after = 3
    said = error_of(capsys, "regrade", kept, *words_for(server, "verifier.parallel=1"))
    assert "verifier.url" in said and "500" in said and "kept in" in said
    server.fails_after, server.asked = 1000, []
    (path,) = regrade([kept], verifying(server), Terminal(Console(quiet=True)))
    judged = {(r["problem"], r["response"]) for r in read_json_lines(path) if r["verdict"] is not None}
    assert len(server.asked) == len(judged) - 3
    server.asked = []
    regrade([kept], verifying(server), Terminal(Console(quiet=True)))
    assert server.asked == []


def test_the_prompt_of_a_verifiers_authors_is_taken_as_it_is(
    kept: Path, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = tmp_path / "prompt.txt"
    template.write_text("ignore \\boxed{{}}\n<{gold_answer}>\n<{llm_response}>")
    regrade([kept], verifying(server, template=str(template)), Terminal(Console(quiet=True)))
    assert all(body["messages"][0]["content"].startswith("ignore \\boxed{}\n<") for body in server.asked)
    template.write_text("{question} {llm_response} {secret}")
    said = error_of(capsys, "regrade", kept, *words_for(server, f"verifier.template={template}"))
    assert "verifier.template" in said and "{gold_answer}" in said and "secret" in said


@pytest.mark.parametrize(
    "words, said",
    [
        (["model=judge"], "verifier.url= is no address"),
        (["url=http://localhost:1/v1"], "verifier.model=NAME"),
        (["url=localhost:1", "model=judge"], "verifier.url=localhost:1 is no address"),
        (["url=http://127.0.0.1:1/v1", "model=judge", "parallel=0"], "verifier.parallel=0 must be at least 1"),
        (["url=http://127.0.0.1:1/v1", "model=judge"], "is a server with verifier.model=judge running there?"),
    ],
)
def test_a_verifier_that_cannot_be_asked_is_one_line(
    kept: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in error_of(capsys, "regrade", kept, *(f"verifier.{word}" for word in words))


def test_a_verdict_is_a_letter_that_stands_alone() -> None:
    assert [verdict(reply) for reply in ("A", " B\n", "**C**", "A: CORRECT", "(B)")] == ["A", "B", "C", "A", "B"]
    assert [verdict(reply) for reply in ("", "A student wrote", "correct", "Also", "D")] == [""] * 5
