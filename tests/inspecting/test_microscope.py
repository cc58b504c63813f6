"""The microscope shows the rollouts of training, shows them as text, and says what it cannot show."""

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from objectives import parse
from rlzoo.commands import main
from rlzoo.config import load_config
from rlzoo.evaluation.evaluate import response_record
from rlzoo.experiment.claim import claim
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import read_json_lines
from rlzoo.inspecting.microscope import Microscope, _state
from rlzoo.report.microscope_page import microscope_page, provenance, spaced, visible
from tests.conftest import error_of
from tests.inspecting.microscopes import hostile, make_run, make_scope
from tests.report.test_page import Elements


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run without a reference that masks much and drops groups."""
    words = ("objective=entropy20(fraction=0.5)-soft_overlong", "model.reference=none")
    return make_run(tmp_path_factory.mktemp("runs") / "run", *words)


@pytest.fixture(scope="module")
def scope(folder: RunFolder) -> Microscope:
    """Two objectives on the rollouts of its second step."""
    return make_scope(folder, "step=1", "against=justrl", "groups=3")


@pytest.mark.parametrize("step", [0, 1])
def test_the_rollouts_are_bitwise_those_of_training(step: int, folder: RunFolder) -> None:
    scope = make_scope(folder, f"step={step}")
    recorded = [line for line in read_json_lines(folder.responses) if line["step"] == step + 1]
    graded = scope.collected.examples[0]
    again = [
        {"step": step + 1, **response_record(graded, row, scope.experiment.config.task)} for row in range(len(recorded))
    ]
    assert again == recorded and len(recorded) == 16
    metrics = read_json_lines(folder.metrics)[step]
    assert scope.batch.require("correct", "test").mean().item() == metrics["accuracy"]
    assert scope.batch.mask.sum(1).float().mean().item() == metrics["length"]
    assert all(scope.recorded) and f"step {step + 1} trained on" in provenance(scope)


def test_what_was_masked_is_what_training_counted(folder: RunFolder) -> None:
    (view,) = make_scope(folder, "step=0").views
    masked = view.masked["top_entropy"]
    # The second mini-batch of the step met a policy that the first had moved.
    counted = read_json_lines(folder.metrics)[0]["touched/top_entropy/tokens"]
    assert masked.any() and masked.sum() / view.tokens.sum() == pytest.approx(counted, rel=0.1)


@pytest.mark.slow
def test_rollouts_sampled_ahead_have_the_ratio_that_training_met(tmp_path: Path) -> None:
    words = ("objective=grpo-kl", "rollout.ahead=1", "train.minibatches_per_step=1", "train.learning_rate=1e-2")
    run = make_run(tmp_path / "run", *words, "train.warmup_steps=0")
    (view,) = make_scope(run, "step=1").views
    counted = read_json_lines(run.metrics)[1]["touched/clip/tokens"]
    assert view.clipped.sum().item() / view.tokens.sum().item() == pytest.approx(counted) and counted > 0
    assert (view.ratio[view.tokens] - 1).abs().max() > 0.2


@pytest.mark.slow
def test_old_log_probs_of_the_engine_have_the_ratio_that_training_met(tmp_path: Path) -> None:
    words = ("objective=grpo-kl", "rollout.old_logp=engine", "rollout.noise=0.5", "train.minibatches_per_step=1")
    run = make_run(tmp_path / "run", *words, "train.steps=1", "evaluation.problems=1", "evaluation.samples=1")
    (view,) = make_scope(run, "step=0").views
    counted = read_json_lines(run.metrics)[0]["touched/clip/tokens"]
    assert view.clipped.sum().item() / view.tokens.sum().item() == pytest.approx(counted) and counted > 0


def test_looking_changes_nothing_and_leaves_one_page(folder: RunFolder) -> None:
    def files() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in folder.path.rglob("*") if path.is_file()}

    before = files()
    assert main(["inspect", str(folder.path)]) == 0
    new = files().keys() - before.keys()
    assert [path.relative_to(folder.path).parts[0] for path in new] == ["microscope"]
    assert {path: time for path, time in files().items() if path in before} == before


def test_the_page_asks_nobody_for_anything_and_has_the_numbers(scope: Microscope) -> None:
    text = microscope_page(scope)
    assert "default-src 'none'" in text and not re.search(r"url\((?!#)|@import", text)
    numbers = json.loads(re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text)[0])
    assert [view["name"] for view in numbers["views"]] == [str(view.objective) for view in scope.views]
    response, row = numbers["responses"][0], int(scope.shown[0][0])
    length = int(scope.batch.mask[row].sum())
    assert response["views"][0]["gradient"] == pytest.approx(scope.views[0].gradient[row, :length].tolist(), rel=1e-3)
    assert response["p"] == pytest.approx(
        scope.batch.require("logp_old", "test")[row, :length].exp().tolist(), rel=1e-3
    )


def test_ids_are_unique_and_every_reference_has_its_target(scope: Microscope) -> None:
    attributes = Elements(microscope_page(scope)).attributes
    ids = [value for name, value in attributes if name == "id"]
    assert len(ids) == len(set(ids))
    used = {value.removeprefix("#") for name, value in attributes if name == "href"}
    assert used <= set(ids)


@pytest.mark.slow
def test_hostile_text_adds_no_element_and_no_attribute(scope: Microscope) -> None:
    harmless, attacked = Elements(microscope_page(scope)), Elements(microscope_page(hostile(scope)))
    assert set(attacked.tags) <= set(harmless.tags)
    assert attacked.tags.count("script") == 3 and "img" not in attacked.tags
    assert {name for name, _ in attacked.attributes} <= {name for name, _ in harmless.attributes}
    assert not any(name.startswith("on") for name, _ in attacked.attributes)


def test_white_space_and_control_characters_are_seen() -> None:
    assert visible(" a\n\x00") == "\u00b7a\u21b5\u2400"
    assert spaced(" a b") == " a b" and spaced("  ") == "\u00b7\u00b7" and spaced("a\n") == "a\u21b5\n"


def test_a_page_shows_no_more_groups_and_tokens_than_asked_for(folder: RunFolder) -> None:
    scope = make_scope(folder, "groups=1", "tokens=3")
    numbers = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', microscope_page(scope))[0]
    assert {len(response["text"]) for response in json.loads(numbers)["responses"]} <= {1, 2, 3}
    assert len(scope.shown) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["step=7"], "step=7: {run} has no checkpoint of that step; it has 0, 1, 2 (0 is the starting model)"),
        (["objective=daapo"], "did you mean dapo"),
        (["against=stapo(tau_p="], "objective 'stapo(tau_p=': expected"),
        (["against=entropy20(fraction=0.5)-soft_overlong"], "is the objective that is looked at already"),
        (["objective=grpo"], "kl needs a reference model, but model.reference=none"),
        (["groups=0"], "groups=0 must be at least 1"),
        (["entropy=2"], "entropy=2 must be from 0 to 1"),
        (["stepp=1"], "did you mean step"),
        (["step=a"], "step"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_a_mistake_is_one_clear_line(
    words: list[str], says: str, folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says.format(run=folder.path) in error_of(capsys, "inspect", folder.path, *words)


def test_a_run_is_not_taken_for_what_its_name_means_by_now(
    folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunFolder(Path(shutil.copytree(folder.path, tmp_path / "run")))
    run.objective.write_text(run.objective.read_text().replace("fraction=0.5", "fraction=0.25"))
    assert main(["inspect", str(run.path)]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "has top_entropy(fraction=0.5" in line and "has top_entropy(fraction=0.25" in line and "objective=" in line


def test_controllers_are_those_of_the_runs_own_objective_however_it_is_written(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    claim(run, load_config(["objective=stare(adaptive=true)"])).close()
    trainer: Any = SimpleNamespace(progress=SimpleNamespace(objective_state={"surprisal_reweighting": {"x": 1.0}}))
    for written, is_own in (("stare(adaptive=true)+stare(adaptive=true)", True), ("stare(adaptive=false)", False)):
        assert bool(_state(trainer, run, parse(written))) == is_own
    run.objective.write_text(run.objective.read_text().replace('"key": "', '"key": "another '))
    assert not _state(trainer, run, parse("stare(adaptive=true)"))


def test_what_is_no_run_or_has_no_checkpoint_is_said(
    folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "is not the folder of a run" in error_of(capsys, "inspect", tmp_path)
    (tmp_path / "config.yaml").write_bytes(folder.config.read_bytes())
    assert "has no checkpoint yet; step=0 looks at the starting model" in error_of(capsys, "inspect", tmp_path)
