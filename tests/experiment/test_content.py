"""A run goes on from the weights and the data that it began with, whatever their files are called."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from accelerate import Accelerator
from safetensors.torch import load_file, save_file

from rlzoo.commands import main
from rlzoo.config import Config, load_config
from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate import holds_out_others
from rlzoo.experiment.check import check
from rlzoo.experiment.claim import claim, content_of, kept_content
from rlzoo.experiment.run_folder import TRAINED, RunFolder
from rlzoo.files import append_json_line, write_json_lines
from rlzoo.training.run import load_trainer
from tests.conftest import error_of, save_tiny_model

WORDS = ("output=run", "resume=true", "objective=grpo+kl", "model.name=model", "model.reference=other")
DATA = ("task.name=rows.jsonl", "task.held_out=held/")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """Of a run that has begun, beside its models and its data."""
    monkeypatch.chdir(tmp_path)
    for name in ("model", "other"):
        save_tiny_model(tmp_path / name)
    Path("held").mkdir()
    for file, first in (("rows.jsonl", 10), ("held/test.jsonl", 100)):
        rows = (f'{{"question": "{n}+1=", "answer": {n + 1}}}\n' for n in range(first, first + 10))
        Path(file).write_text("".join(rows))
    folder = RunFolder(Path("run"))
    claim(folder, config()).close()
    append_json_line(folder.metrics, {**dict.fromkeys(TRAINED.needed, 0.5), "step": 1})
    return folder


def config(*words: str) -> Config:
    return load_config([*WORDS, *DATA, *words])


def noisy(model: str) -> None:
    file = Path(model) / "model.safetensors"
    save_file({name: weight + 1 for name, weight in load_file(file).items()}, file)


def edited(file: str) -> None:
    """As many bytes as before."""
    Path(file).write_text(Path(file).read_text().replace('answer": 1', 'answer": 4'))


CHANGES: list[tuple[Callable[[], object], str]] = [
    (lambda: noisy("model"), r"model\.name=model: model\.safetensors is not what"),
    (lambda: noisy("other"), r"model\.reference=other: model\.safetensors is not what"),
    (lambda: Path("model/chat_template.jinja").write_text("1"), r"model\.name=model: chat_template\.jinja is not"),
    (lambda: Path("model/generation_config.json").unlink(), r"model\.name=model: generation_config\.json is not"),
    (lambda: edited("rows.jsonl"), r"task\.name=rows\.jsonl: rows\.jsonl is not what"),
    (lambda: edited("held/test.jsonl"), r"task\.held_out=held/: test\.jsonl is not what"),
    (lambda: Path("held/test.jsonl").rename("held/test.txt"), r"task\.held_out=held/: test\.jsonl is not what"),
    (lambda: Path("held/more.jsonl.gz").write_bytes(b"1"), r"task\.held_out=held/: more\.jsonl\.gz is not what"),
    (lambda: shutil.copy("rows.jsonl", "held/more.jsonl"), r"task\.held_out=held/: more\.jsonl is not what"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES, ids=[message.partition(" is")[0] for _, message in CHANGES])
def test_a_run_does_not_go_on_from_other_weights_or_data(
    folder: RunFolder, change: Callable[[], object], message: str
) -> None:
    claim(folder, config()).close()
    change()
    with pytest.raises(UserError, match=rf"^{message}.* began with; put back what it was, or .* another output=$"):
        claim(folder, config())


def test_files_that_are_copied_touched_or_added_beside_are_the_same(folder: RunFolder) -> None:
    before = folder.content.read_text()
    os.utime("rows.jsonl", (1, 1))
    Path(shutil.move("model", "elsewhere")).rename("model")
    Path("model/README.md").write_text("A model.")
    claim(folder, config()).close()
    assert folder.content.read_text() == before


def test_before_the_first_step_what_the_evaluation_does_not_read_is_free(folder: RunFolder) -> None:
    folder.metrics.unlink()
    (folder / "evaluation").mkdir()
    (folder / "evaluation" / "step-000000-t1-p1.jsonl").write_text("")
    noisy("other")
    claim(folder, config()).close()
    noisy("model")
    with pytest.raises(UserError, match=r"^model\.name=model"):
        claim(folder, config())


def test_a_run_that_did_not_record_it_is_told_of_and_does_from_then_on(
    folder: RunFolder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.content.unlink()
    claim(folder, config()).close()
    assert "does not say which weights and data it began with" in caplog.text
    assert kept_content(folder) == content_of(config())
    folder.content.write_text('{"model.name": 5}')
    with pytest.raises(UserError, match=r"content\.json is not readable"):
        claim(folder, config())


@pytest.mark.parametrize("told", ["Box it.", ""])
def test_a_run_that_held_out_other_questions_does_not_train_on_them(folder: RunFolder, told: str) -> None:
    words = [f"task.instruction={told}"] * bool(told)
    asked = load_config(["output=told", "model.name=model", DATA[0], *words, "rollout.max_response_tokens=2"])
    experiment, run = check(asked), RunFolder(Path("told"))
    claim(run, asked).close()
    of_before, now = experiment.task.train[0], experiment.task.held_out[0]
    for problem, is_refused in ((now, False), (of_before, True)):
        record = {"problem": problem.id, "sample": 0, "correct": 0, "response": "", "outcome": "graded"}
        write_json_lines(run / "evaluation" / "step-000000-T1-p1.jsonl", [record])
        assert holds_out_others(run, asked.task, experiment.held_out) == is_refused
        assert not holds_out_others(run, replace(asked.task, held_out_seed=5), experiment.held_out)
    with pytest.raises(UserError, match=r"^task\.name=rows\.jsonl: the run in told held out other questions"):
        load_trainer(experiment, Accelerator(), run).__enter__()


def test_a_model_of_the_hub_is_its_commit(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "rlzoo.experiment.claim.try_to_load_from_cache", lambda *_, **__: "/hub/snapshots/c0ffee/config.json"
    )
    assert content_of(load_config(["model.name=theirs/model"])) == {"model.name": {"commit": "c0ffee"}}


@pytest.mark.slow
def test_a_mistake_with_weights_or_data_is_told_before_a_model_loads(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(folder.path)
    Path("reward.py").write_text("def reward(response):\n    return len(response)\n")
    words = [*DATA, "output=run", "model.name=model", "task.reward=./reward.py:reward", "rollout.prompts_per_step=2"]
    words += ["rollout.responses_per_prompt=2", "rollout.max_response_tokens=2", "evaluation.problems=2"]
    assert main(["train", *words, "train.steps=1", "evaluation.samples=1"]) == 0
    edited("rows.jsonl")
    monkeypatch.setattr("rlzoo.training.run.load_models", None)
    said = error_of(capsys, "train", *words, "train.steps=2", "evaluation.samples=1", "resume=true")
    assert "task.name=rows.jsonl: rows.jsonl is not what the run in run began with" in said
    assert json.loads(folder.content.read_text())["task.name"].keys() == {"rows.jsonl"}


def test_a_folder_that_is_called_as_a_task_is_no_data_of_it(folder: RunFolder) -> None:
    Path("sums").mkdir()
    shutil.copy("rows.jsonl", "sums/rows.jsonl")
    assert content_of(load_config(["model.name=model"])).keys() == {"model.name"}
