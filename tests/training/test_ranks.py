"""With real processes: two of them, joined by gloo, accumulate the gradient that one does, and train the same."""

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from safetensors.torch import load_file

from objectives import parse
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import read_json_lines
from tests.processes import ONE, TWO, failure, launch
from tests.thinned import thinned
from tests.training.rank_gradients import EXPRESSIONS
from tests.training.rank_runs import FURTHER, LOCAL, NOISE, OBJECTIVES, WORDS

ROUNDING = 2e-7
"""Of a float32 sum of terms about one, which may cancel: losses of 1e-4 and a divergence of 1e-13 are such."""


@pytest.mark.parametrize(
    "every", [pytest.param(10, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.exhaustive)]
)
def test_two_processes_have_the_gradients_and_metrics_of_one(every: int, tiny_model: Path, tmp_path: Path) -> None:
    expressions = EXPRESSIONS[::every]
    for name, launcher in (("one", ONE), ("two", TWO)):
        output = tmp_path / f"{name}.safetensors"
        launch([*launcher, "-m", "tests.training.rank_gradients", tiny_model, output, str(every)])
    one, two = load_file(tmp_path / "one.safetensors"), load_file(tmp_path / "two.safetensors")
    assert [json.loads((tmp_path / f"{name}.json").read_text()).pop("processes") for name in ("one", "two")] == [1, 2]
    assert one.keys() == two.keys()
    assert {name.split(" update ")[0] for name in one} == set(expressions)
    apart = [expression for expression in expressions if parse(expression).reads_micro_batches]
    for name, gradient in one.items():
        if not any(name.startswith(expression) for expression in apart):
            assert (two[name] - gradient).abs().max() <= 1e-10 * gradient.abs().max(), name
    largest = {expression: 0.0 for expression in expressions}
    for name, gradient in one.items():
        expression = name.split(" update ")[0]
        largest[expression] = max(largest[expression], gradient.abs().max().item())
    assert min(largest.values()) > 0
    metrics = [json.loads((tmp_path / f"{name}.json").read_text()) for name in ("one", "two")]
    sampled, trained = metrics[1]["tokens"].values()
    assert sum(sampled) == sum(trained) and max(sampled) - min(sampled) > 4 * (max(trained) - min(trained))
    for expression, values in metrics[0].items():
        if expression not in (*apart, "processes", "tokens"):
            assert metrics[1][expression] == pytest.approx(values, rel=1e-9, abs=1e-12), expression


@pytest.mark.smoke
@pytest.mark.slow
def test_two_processes_train_one_run_together(tmp_path: Path) -> None:
    words = ["train.steps=2", "rollout.prompts_per_step=8", "evaluation.problems=4", "evaluation.samples=1"]
    said = launch([*TWO, "-m", "rlzoo", "train", "objective=dapo", "output=run", *words], tmp_path)
    assert said.count("on cpu in 2 processes") == 1
    metrics = read_json_lines(tmp_path / "run" / "metrics.jsonl")
    assert [line["step"] for line in metrics] == [1, 2]
    timings = read_json_lines(tmp_path / "run" / "timings.jsonl")
    assert all(0 < line["generate_positions"] < 8 * 8 * 40 for line in timings)


EACH_ITS_OWN = """
import os, sys
from rlzoo.commands import main
sys.exit(main(["train", "output=run-" + os.environ.get("RANK", "0"), "resume=true", *sys.argv[1:]]))
"""


@pytest.mark.slow
def test_processes_whose_folders_differ_say_so_instead_of_waiting_for_each_other(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(EACH_ITS_OWN)
    words = ["objective=grpo", "rollout.prompts_per_step=2", "evaluation.problems=4", "evaluation.samples=1"]
    launch([*ONE, "train.py", "train.steps=1", *words], tmp_path)
    said = failure([*TWO, "train.py", "train.steps=2", *words], tmp_path)
    assert "the processes find different checkpoints there (none, step-000001)" in said
    assert "on a disk that all machines share" in said and "Traceback" not in said.split("elastic")[0]


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one process does in a few steps with each objective."""
    return steps_of(ONE, "none", tmp_path_factory.mktemp("one"))


def steps_of(launcher: list[str], sharding: str, folder: Path) -> dict[str, Any]:
    """What rank_runs writes."""
    launch([*launcher, "-m", "tests.training.rank_runs", folder, sharding])
    (written,) = folder.glob("*.json")
    return dict(json.loads(written.read_text()))


@pytest.mark.parametrize("sharding", thinned(["none", "fsdp"], fast=0, slow=0))
def test_two_processes_sample_and_train_as_one_does(sharding: str, one_process: dict[str, Any], tmp_path: Path) -> None:
    one, two = one_process, steps_of(TWO, sharding, tmp_path)
    assert list(one) == list(two) == [*OBJECTIVES, LOCAL]
    for objective, part in OBJECTIVES.items():
        for a, b in zip(one[objective], two[objective], strict=True):
            assert b["tokens"] == a["tokens"], (objective, a["metrics"]["step"])
            agree(b["metrics"], a["metrics"], 1e-4, ROUNDING, has_noise=NOISE in FURTHER.get(objective, []))
        assert not part or any(step["metrics"][f"touched/{part}/tokens"] for step in two[objective])
        assert any(len(set(step["longest"])) > 1 for step in two[objective]), "no step was ragged"
        for a, b in zip(one[objective], two[objective], strict=True):
            assert b["handed_over"] == a["handed_over"] and len(b["handed_over"]) > 50
            assert b["weights_here"] == a["weights_here"] // (2 if sharding == "fsdp" else 1)
    assert any(step["rounds"] > 1 for step in two["dapo"]), "no step was refilled"
    assert any(step["metrics"]["stale_tokens"] for step in two["dr_grpo"]), "no response went on in a later step"
    assert all(step["metrics"]["updates_skipped"] == 0 for steps in two.values() for step in steps)
    a, b = one[LOCAL][0], two[LOCAL][0]
    assert b["tokens"] == a["tokens"]
    with pytest.raises(AssertionError, match=r"gradient_norm|loss"):
        agree(b["metrics"], a["metrics"])


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("word", "less"),
    [("rollout.ahead=0", ""), ("rollout.ahead=1", ""), ("rollout.partial_tokens=4", "-dynamic_sampling")],
)
def test_a_run_goes_on_after_a_kill_with_another_number_of_processes(word: str, less: str, tmp_path: Path) -> None:
    own = [f"objective=stare(adaptive=true,fraction=1){less}", word, "checkpoint.every=1", "checkpoint.keep=9"]
    words = [*WORDS, *own]
    parts, whole = RunFolder(tmp_path / "parts"), RunFolder(tmp_path / "whole")
    command = [*TWO, "-m", "rlzoo", "train", *words, f"output={parts.path}"]
    started = psutil.Popen([*command, "train.steps=500"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(read_json_lines(parts.metrics)) < 3:
        assert started.poll() is None
        time.sleep(0.02)
    family = [started, *started.children(recursive=True)]
    for process in family:
        process.kill()
    psutil.wait_procs(family)
    last = parts.last_checkpoint()
    assert last is not None
    steps = int(last.name.removeprefix("step-"))
    for launcher, sharding, more in ((TWO, "fsdp", 1), (ONE, "none", 2), (TWO, "fsdp", 3)):
        resumed = [f"output={parts.path}", "resume=true", f"train.steps={steps + more}", f"train.sharding={sharding}"]
        launch([*launcher, "-m", "rlzoo", "train", *words, *resumed])
    launch([*ONE, "-m", "rlzoo", "train", *words, f"output={whole.path}", f"train.steps={steps + 3}"])
    lines = [read_json_lines(folder.metrics) for folder in (parts, whole)]
    assert len(lines[0]) == steps + 3 >= 5
    for found, expected in zip(*lines, strict=True):
        agree(found, expected)


@pytest.mark.exhaustive
def test_sharded_processes_train_rows_without_masks_as_one_does(tmp_path: Path) -> None:
    words = [*WORDS, "objective=stapo+kl", "model.attention=varlen", "model.gradient_checkpointing=true"]
    for name, launcher, sharding in (("one", ONE, "none"), ("two", TWO, "fsdp")):
        own = [f"output={tmp_path / name}", f"train.sharding={sharding}", "train.steps=2"]
        launch([*launcher, "-m", "rlzoo", "train", *words, *own])
    one, two = (read_json_lines(tmp_path / name / "metrics.jsonl") for name in ("one", "two"))
    for found, expected in zip(two, one, strict=True):
        agree(found, expected)


def agree(
    found: dict[str, Any],
    expected: dict[str, Any],
    relative: float = 1e-3,
    absolute: float = 1e-5,
    has_noise: bool = False,
) -> None:
    """Metrics but for the rounding of float32 sums; the differences to a sampler without noise are nothing else."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if has_noise or not name.startswith("sampler/"):
            assert found[name] == pytest.approx(value, rel=relative, abs=absolute), (expected["step"], name)
