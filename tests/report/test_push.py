"""A trained model goes to the hub with a card that says what trained it; a local server stands in for the hub."""

import io
import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard, constants, parse_eval_result_entries
from rich.console import Console
from transformers import AutoModelForCausalLM, AutoTokenizer

from rlzoo.commands import main
from rlzoo.config import load_config, to_yaml
from rlzoo.config.reading import read_recorded
from rlzoo.evaluation.evaluate import Evaluation
from rlzoo.evaluation.kept import RESULTS
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import read_json_lines
from rlzoo.report.push import MODEL_FILES
from rlzoo.report.run_files import CARD, curves_figure, curves_of, model_card, published_config, write_reports
from rlzoo.report.terminal import Terminal
from rlzoo.training.run import train
from tests.conftest import error_of
from tests.report.legible import assert_legible
from tests.report.stand_in import Hub, Stand, serving


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("HF_TOKEN", Hub.token)
    with serving() as settings:
        for name, value in settings.items():
            monkeypatch.setattr(constants, name, value)
        yield Stand.hub


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = tmp_path_factory.mktemp("runs") / "my run"
    words = [
        "objective=dapo",
        f"output={folder}",
        "train.steps=1",
        "rollout.prompts_per_step=4",
        "evaluation.samples=2",
    ]
    words += ["evaluation.problems=4", "rollout.max_refills=50", "evaluation.decodings=[1/1,0/1]"]
    return train(load_config(words), Terminal(Console(quiet=True)), write_reports)


def test_the_curves_are_legible(finished: RunFolder) -> None:
    assert_legible(curves_of(finished))


def test_a_name_with_dollars_is_no_formula(finished: RunFolder) -> None:
    config = finished.read_config()
    config.task.name = "data/$5_to_$10^.jsonl"
    figure = curves_figure(read_json_lines(finished.metrics), {}, "dapo", config)
    figure.savefig(io.BytesIO(), format="png")


def test_no_name_of_a_folder_is_filled_in(finished: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "secret")
    named = finished.path.with_name("${oc.env:SECRET}")
    finished.path.rename(named)
    try:
        config = published_config(RunFolder(named))
        assert config.output == "${oc.env:SECRET}" and "secret" not in to_yaml(config)
    finally:
        named.rename(finished.path)


def test_a_decoding_that_begins_with_a_point_is_no_path(finished: RunFolder, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    config = finished.read_config()
    config.evaluation.decodings = [".7/0.9"]
    folder.config.write_text(to_yaml(config))
    assert published_config(folder).evaluation.decodings == [".7/0.9"]


@pytest.mark.slow
def test_the_card_says_what_trained_the_model_and_what_came_of_it(finished: RunFolder) -> None:
    model = finished.last_checkpoint()
    assert model is not None
    card = ModelCard.load(model / CARD)
    assert card.text == ModelCard(model_card(finished)).text
    described = json.loads(finished.objective.read_text())
    assert described["equation"] in card.text and "`dapo`" in card.text
    assert all(part["formula"].replace("|", "\u2502") in card.text for part in described["parts"])
    last = {path: Evaluation.load(path).accuracy.mean for path in (finished / "evaluation").glob("step-000001-*.jsonl")}
    said = {result.metric_name: result.metric_value for result in card.data.eval_results}
    assert len(last) == 2 and said.keys() == {"avg@2, T=1, top-p=1", "avg@1, T=0, top-p=1"}
    assert sorted(said.values()) == pytest.approx(sorted(last.values()), abs=1e-4)
    assert card.data.library_name == "transformers" and card.data.base_model is None
    assert f"output={finished.path}" not in card.text and str(finished.path) not in card.text


def test_what_was_recorded_is_no_markup_of_the_card(finished: RunFolder, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(finished.path, folder)
    (folder / "environment.json").write_text(json.dumps({"torch": "2 |\n\n# Weights\n<img src=x> [here](https://x.y)"}))
    card = model_card(RunFolder(folder))
    assert "\n# Weights" not in card and "<img" not in card.replace("\\<img", "") and "[here](" not in card


def test_the_command_of_the_card_is_the_run(finished: RunFolder) -> None:
    (line,) = (line.strip() for line in model_card(finished).splitlines() if line.startswith("    rlzoo train"))
    words = shlex.split(line)[2:]
    again = load_config([*words, f"output={finished.path}"])
    assert again == load_config([str(finished.config)])


def test_push_uploads_the_model_without_what_training_needs(finished: RunFolder, hub: Hub, tmp_path: Path) -> None:
    assert main(["push", str(finished.path), "someone/model", "private=true"]) == 0
    (made,) = hub.created
    assert (made["organization"], made["name"], made["visibility"]) == ("someone", "model", "private")
    folder = tmp_path / "downloaded"
    folder.mkdir()
    for name, content in hub.files.items():
        (folder / name).write_bytes(content)
    assert {"config.yaml", "curves.png", CARD} <= hub.files.keys() and "optimizer.safetensors" not in hub.files
    assert hub.metadata, "the hub has looked at the metadata"
    model = finished.last_checkpoint()
    assert model is not None
    assert (folder / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()
    AutoModelForCausalLM.from_pretrained(folder)
    AutoTokenizer.from_pretrained(folder)


def test_an_evaluation_on_all_problems_of_a_benchmark_with_a_leaderboard_gets_an_entry_there(
    finished: RunFolder, hub: Hub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = RunFolder(shutil.copytree(finished.path, tmp_path / "run"))
    rows = [{"problem": f"{number}+1=", "answer": str(number + 1)} for number in range(4)]
    (tmp_path / "data").mkdir()
    for name in ("gsm8k", "math500"):
        (tmp_path / "data" / f"{name}.json").write_text(json.dumps(rows))
    words = ["benchmarks=gsm8k,math500", f"benchmarks_folder={tmp_path}/data", "evaluation.decodings=[0/1,0.7/0.9]"]
    assert main(["eval", str(run.path), *words, "task.instruction="]) == 0
    assert main(["push", str(run.path), "someone/model"]) == 0
    assert not any("eval_results" in name for name in hub.files) and "gsm8k, math500: no entry" in caplog.text
    results = json.loads((run / "evaluation" / RESULTS).read_text())
    for entry in results.values():
        entry["settings"]["problems"] = {"gsm8k": 1319, "math500": 500}[entry["settings"]["problem_set"]]
    first = next(entry for entry in results.values() if entry["settings"]["problem_set"] == "gsm8k")
    another = {**first["settings"], "model": {**first["settings"]["model"], "weights": "0"}}
    results["of_another_model"] = {**first, "settings": another, "figures": {"accuracy": 0.111}}
    results["graded_by_another"] = {**first, "regraded_with": {}, "figures": {"accuracy": 0.222}}
    (run / "evaluation" / RESULTS).write_text(json.dumps(results))
    assert main(["push", str(run.path), "someone/model"]) == 0
    named = sorted(name for name in hub.files if "eval_results" in name)
    assert named == [".eval_results/gsm8k-T0-p1.yaml", ".eval_results/gsm8k-T0.7-p0.9.yaml"]
    read = [parse_eval_result_entries(yaml.safe_load(hub.files[name])) for name in named]
    assert all(len(entries) == 1 for entries in read)
    assert {(it.dataset_id, it.task_id) for (it,) in read} == {("openai/gsm8k", "gsm8k")}
    assert read[0][0].notes == "avg@1, T=0, top-p=1"
    assert read[0][0].value == round(100 * first["figures"]["accuracy"], 2)


def test_push_uploads_what_it_lists_and_follows_no_link(
    finished: RunFolder, hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunFolder(shutil.copytree(finished.path, tmp_path / "run"))
    model = run.last_checkpoint()
    assert model is not None
    private = tmp_path / "private"
    private.write_text("secret")
    (model / "notes.txt").write_text("secret")
    (model / "more.safetensors").symlink_to(private)
    assert main(["push", str(run.path), "someone/model"]) == 0
    assert hub.files.keys() <= {*MODEL_FILES, "config.yaml", "curves.png", CARD}
    assert not any(b"secret" in content for content in hub.files.values())
    told = (run.objective, run / "environment.json", next((run / "evaluation").glob("*.jsonl")))  # by the card
    told = (*told, run / "evaluation" / RESULTS)
    for path in (model / "vocab.txt", run.curves, run.config, *told):
        hub.files.clear()
        content = path.read_bytes() if path.exists() else None
        path.unlink(missing_ok=True)
        path.symlink_to(private if path != run.config else finished.config)
        assert f"{path} is a link" in error_of(capsys, "push", run.path, "someone/model") and not hub.files
        path.unlink()
        if content is not None:
            path.write_bytes(content)
    elsewhere = model.rename(tmp_path / "elsewhere")
    model.symlink_to(elsewhere)
    assert f"{model} is a link" in error_of(capsys, "push", run.path, "someone/model") and not hub.files


def test_what_is_published_has_no_path_of_this_machine(
    finished: RunFolder, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunFolder(shutil.copytree(finished.path, tmp_path / "run"))
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "rows.jsonl").write_text("{}")
    monkeypatch.chdir(tmp_path)
    config = read_recorded(run.config)
    config.model.name, config.model.reference = f"{tmp_path}/models/base", "~/models/reference"
    config.model.teacher = "./data/teacher"
    config.task.held_out, config.task.reward = "here/rows.jsonl", [f"{tmp_path}/rewards.py:right"]
    config.task.options = {"file": {"path": "./data/private.txt"}}
    run.config.write_text(to_yaml(config))
    assert main(["push", str(run.path), "someone/model"]) == 0
    published = {
        name: content.decode() for name, content in hub.files.items() if name.endswith((".yaml", ".md", ".json"))
    }
    for secret in (str(tmp_path), str(finished.path.parent), "~/", "here/", "./data"):
        assert not [name for name, text in published.items() if secret in text]
    assert "rewards.py:right" in published["config.yaml"] and "base" in published["config.yaml"]


def test_what_cannot_be_pushed_is_one_line(
    finished: RunFolder, hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "is no run" in error_of(capsys, "push", tmp_path, "someone/model")
    assert "is no name of a model" in error_of(capsys, "push", finished.path, "a/b/c")
    hub.token = "another"
    assert "refused someone/model" in error_of(capsys, "push", finished.path, "someone/model")
    assert not hub.files


def test_a_hub_that_is_not_reached_has_refused_nothing(
    finished: RunFolder, hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    message = error_of(capsys, "push", finished.path, "someone/model")
    assert "could not be reached for someone/model" in message and "refused" not in message
