"""An evaluation that was killed ends with the file of one that was not; one that is finished is not sampled again."""

from pathlib import Path

import pytest
from rich.console import Console
from transformers import AutoModelForCausalLM

from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate_target import evaluate_target
from rlzoo.evaluation.kept import RESULTS, read_results
from rlzoo.evaluation.target import read_target
from rlzoo.report.terminal import Terminal
from rlzoo.rollout.sampler import Sampler
from rlzoo.rollout.transformers_engine import TransformersEngine

MODEL = "embedded:sums"
SMALL = ("evaluation.problems=6", "evaluation.samples=2", "rollout.rows_per_batch=4")


def evaluate(output: Path, *words: str) -> Path:
    """Evaluates the embedded model on its task; returns the file of responses."""
    target = read_target(MODEL, [*SMALL, f"output={output}", *words])
    return evaluate_target(target, Terminal(Console(quiet=True)))[0]


def killed_after(batches: int, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Lets the sampler fail after so many batches; returns the list of those that it samples."""
    sampled, sample = list[object](), Sampler.__call__

    def failing(*arguments: object) -> object:
        if len(sampled) == batches:
            raise KeyboardInterrupt
        sampled.append(arguments[-1])
        return sample(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Sampler, "__call__", failing)
    return sampled


@pytest.mark.slow
def test_batches_that_are_done_are_kept_and_the_file_is_that_of_one_that_was_not_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = evaluate(tmp_path / "whole")
    for batches in (1, 1):
        with monkeypatch.context() as context, pytest.raises(KeyboardInterrupt):
            killed_after(batches, context)
            evaluate(tmp_path / "killed")
    assert not list((tmp_path / "killed").glob("*.jsonl"))
    with monkeypatch.context() as context:
        sampled = killed_after(99, context)
        resumed = evaluate(tmp_path / "killed")
    assert len(sampled) == 1
    assert resumed.read_bytes() == whole.read_bytes()
    assert {path.name for path in resumed.parent.iterdir() if path.name[0] != "."} == {resumed.name, RESULTS}


def test_an_engine_that_queues_rows_itself_gets_many_batches_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TransformersEngine, "queues", True, raising=False)
    sampled = killed_after(99, monkeypatch)
    assert len(evaluate(tmp_path).read_text().splitlines()) == 12
    assert len(sampled) == 1


def test_what_is_finished_is_not_sampled_again_and_loads_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = evaluate(tmp_path)
    before = (path.read_bytes(), (tmp_path / RESULTS).read_bytes())
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", None)
    assert evaluate(tmp_path) == path
    assert (path.read_bytes(), (tmp_path / RESULTS).read_bytes()) == before


def test_what_other_settings_decided_is_neither_gone_on_with_nor_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as context, pytest.raises(KeyboardInterrupt):
        killed_after(1, context)
        evaluate(tmp_path)
    with pytest.raises(UserError, match=r"made with max_response_tokens=24, and now it is 15; another output= keeps"):
        evaluate(tmp_path, "rollout.max_response_tokens=15")
    path = evaluate(tmp_path)
    with pytest.raises(UserError, match=r"made with problems=6, and now it is 5"):
        evaluate(tmp_path, "evaluation.problems=5")
    (tmp_path / RESULTS).unlink()
    with pytest.raises(UserError, match=r"results\.json does not say what decided it"):
        evaluate(tmp_path)
    assert path.exists()


def test_a_reward_whose_code_has_changed_is_another_evaluation(tmp_path: Path) -> None:
    reward = tmp_path / "my_reward.py"
    reward.write_text("def right(response, gold):\n    return float(response == gold)\n")
    path = evaluate(tmp_path / "out", f"task.reward={reward}:right")
    assert evaluate(tmp_path / "out", f"task.reward={reward}:right") == path
    reward.write_text("def right(response, gold):\n    return 1.0\n")
    with pytest.raises(UserError, match=r"my_reward\.py:right \(my_reward\.py\) has changed since .* was made"):
        evaluate(tmp_path / "out", f"task.reward={reward}:right")


def test_results_say_everything_that_decided_them(tmp_path: Path) -> None:
    path = evaluate(tmp_path)
    entry = read_results(tmp_path)[path.stem]
    assert entry["model"] == MODEL and entry["run"] is None and entry["environment"]["torch"]
    settings = entry["settings"]
    assert {"data", "prompts", "samples", "seed", "engine", "decoding", "max_response_tokens"} <= settings.keys()
    assert {"weights", "precision", "chat_template"} <= settings["model"].keys()
    assert settings["task"]["instruction"] == "" and entry["figures"]["samples"] == 2
    other = evaluate(tmp_path / "other", "seed=1", "model.attention=eager")
    changed = read_results(tmp_path / "other")[other.stem]["settings"]
    assert changed == settings | {"seed": 1, "model": settings["model"] | {"attention": "eager"}}
