"""Evaluation by itself: one load of the model, the papers' settings unless told otherwise, mistakes found before it."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from transformers import AutoModelForCausalLM

from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate_target import evaluate_target
from rlzoo.evaluation.kept import read_results
from rlzoo.evaluation.target import read_target
from rlzoo.files import read_json_lines
from rlzoo.report.terminal import Terminal
from rlzoo.tasks.benchmarks import BOXED, contamination_of
from tests.conftest import save_tiny_model

SMALL = ("rollout.max_response_tokens=4", "evaluation.problems=2", "evaluation.samples=2")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two benchmarks whose problems the tiny model can spell."""
    for name, count in (("aime24", 3), ("math500", 2)):
        rows = [{"problem": f"{i}+{i}=", "answer": str(2 * i)} for i in range(count)]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
    return tmp_path


def evaluate(target: Path | str, *words: str) -> tuple[list[Path], str]:
    """Evaluates; returns the files and what an 80-column terminal shows."""
    console = Console(width=80, record=True, file=io.StringIO())
    return evaluate_target(read_target(str(target), words), Terminal(console)), console.export_text()


def benchmark_words(folder: Path, *words: str) -> tuple[str, ...]:
    """Two small benchmarks from a folder."""
    return ("benchmarks=aime24,math500", f"benchmarks_folder={folder}", f"output={folder / 'out'}", *words)


@pytest.mark.smoke
@pytest.mark.slow
def test_benchmarks_are_sampled_as_the_papers_do_and_the_model_loads_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model, loads, load = save_tiny_model(folder / "model", context=400), [], AutoModelForCausalLM.from_pretrained
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", lambda *a, **k: loads.append(a) or load(*a, **k))
    paths, shown = evaluate(model, *benchmark_words(folder, "rollout.max_response_tokens=4"))
    assert len(loads) == 1
    assert all(note in caplog.text for note in contamination_of(["aime24", "math500"]))
    assert [path.name for path in paths] == [
        "aime24-T1-p1-k32-seed0.jsonl",
        "math500-T1-p1-k4-seed0.jsonl",
        "aime24-T0.7-p0.9-k32-seed0.jsonl",
        "math500-T0.7-p0.9-k4-seed0.jsonl",
    ]
    assert [len(read_json_lines(path)) for path in paths] == [96, 8, 96, 8]
    entry = read_results(paths[0].parent)[paths[0].stem]
    settings, figures = entry["settings"], entry["figures"]
    assert (settings["problem_set"], settings["problems"], settings["samples"]) == ("aime24", 3, 32)
    assert list(figures["pass_at"]) == ["1", "2", "4", "8", "16", "32"]
    assert shown.count("macro average") == 4
    table = [line for line in shown.splitlines() if not line.startswith("responses")]
    assert max(len(line.rstrip()) for line in table) <= 80


def test_what_is_given_goes_before_what_the_papers_do(folder: Path) -> None:
    model = save_tiny_model(folder / "model", context=400)
    paths, shown = evaluate(model, *benchmark_words(folder, *SMALL, "evaluation.decodings=[0/1]"))
    assert [path.name for path in paths] == ["aime24-T0-p1-k1-seed0.jsonl", "math500-T0-p1-k1-seed0.jsonl"]
    assert [len(read_json_lines(path)) for path in paths] == [2, 2], "greedy decoding has one response to each problem"
    assert "at most 4 tokens" in shown


def test_responses_may_be_as_long_as_the_context_has_room_for(folder: Path) -> None:
    model = save_tiny_model(folder / "model", context=120)
    paths, _ = evaluate(model, *benchmark_words(folder, "evaluation.samples=1", "evaluation.decodings=[1/1]"))
    longest = read_results(paths[0].parent)[paths[0].stem]["settings"]["max_response_tokens"]
    assert 0 < longest < 120


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("benchmarks=aime2024",), r"benchmarks=aime2024 is not a benchmark; did you mean"),
        (("benchmarks=gsm8k", "benchmarks_folder=."), r"holds no gsm8k\.parquet"),
        (("benchmarks=aime24", "task.split=test"), r"'task\.split=test' has no effect on benchmarks"),
        (("benchmarks=aime24", "task.name=sums"), r"'task\.name=sums' has no effect on benchmarks"),
        (("benchmarks_folder=.",), r"has no effect without benchmarks="),
        (("benchmark=aime24",), "unknown key benchmark=aime24; did you mean benchmarks"),
        (("evaluation.every=3",), r"'evaluation\.every=3' has no effect"),
        (("task.name=aime24.parquet", "task.split=dev", *SMALL), r"task\.split='dev' has no effect on a file"),
    ],
)
def test_a_mistake_is_found_before_the_model_loads(
    words: tuple[str, ...], message: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = save_tiny_model(folder / "model", context=400)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", None)
    with pytest.raises(UserError, match=message):
        evaluate(model, *words)


def test_an_evaluation_of_a_task_shows_pass_and_majority(folder: Path) -> None:
    output = (f"output={folder / 'out'}", "evaluation.problems=4", "evaluation.samples=2")
    _, shown = evaluate("embedded:sums", *output)
    for heading in ("avg@2", "pass@2", "maj@2", "truncated"):
        assert heading in shown


@pytest.mark.slow
def test_texts_that_end_a_response_worked_examples_and_decodings_reach_the_sampler(folder: Path) -> None:
    model = save_tiny_model(folder / "model", context=400)
    (folder / "shots.jsonl").write_text('{"problem": "3+3=", "response": "6"}')
    whole, _ = evaluate(model, *benchmark_words(folder, "evaluation.samples=8", "evaluation.decodings=[1/1]", SMALL[0]))
    words = ("evaluation.samples=8", "evaluation.decodings=[1/1/5/0.01]", SMALL[0], 'evaluation.stop=["1","+"]')
    words = (*words, "task.system_prompt=Add.", f"examples={folder / 'shots.jsonl'}")
    cut, _ = evaluate(model, *benchmark_words(folder, *words))
    assert cut[0].name == "aime24-T1-p1-top5-min0.01-k8-seed0.jsonl"
    before, after = (read_json_lines(paths[0]) for paths in (whole, cut))
    assert not any("1" in record["response"] or "+" in record["response"] for record in after)
    assert [message["content"] for message in after[0]["prompt"][:3]] == ["Add.", "3+3=" + BOXED, "6"]
    assert {record["outcome"] for record in after} >= {"graded"} and len(before) == len(after)
    settings = read_results(cut[0].parent)[cut[0].stem]["settings"]
    assert (settings["stop"], settings["decoding"]["top_k"]) == (["1", "+"], 5)
