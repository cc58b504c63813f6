"""Every tracker receives a run's configuration, its curves and its evaluations: read back from what it wrote."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlzoo.doctor.detectors import examine
from rlzoo.training.run import send_alerts
from tests.doctor.test_detectors import sick
from tests.thinned import thinned
from tests.training.test_train import SMALL

ROOT = Path(__file__).parents[2]
Read = Callable[[Path], tuple[str, Mapping[int, Mapping[str, Any]]]]


def of_tensorboard(folder: Path) -> tuple[str, Mapping[int, Mapping[str, Any]]]:
    """The configuration as text, and the values by step."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    steps: dict[int, dict[str, Any]] = {}
    (file,) = folder.glob("run/rlzoo/events.out.tfevents*")
    events = EventAccumulator(str(file)).Reload()
    for name in events.Tags()["scalars"]:
        for event in events.Scalars(name):
            steps.setdefault(event.step, {})[name] = event.value
    (config,) = folder.glob("run/rlzoo/**/hparams.yml")
    return config.read_text(), steps


def of_trackio(folder: Path) -> tuple[str, Mapping[int, Mapping[str, Any]]]:
    """The same of its local database."""
    with sqlite3.connect(folder / "trackio" / "rlzoo.db") as database:
        (config,) = database.execute("select config from configs").fetchone()
        steps: dict[int, dict[str, Any]] = {}
        for step, values in database.execute("select step, metrics from metrics"):
            steps.setdefault(step, {}).update(json.loads(values))
    return str(config), steps


@pytest.mark.parametrize(
    ("tracker", "read"),
    thinned([("tensorboard", of_tensorboard), ("trackio", of_trackio)], fast=0, slow=2),
)
def test_a_tracker_receives_configuration_curves_and_evaluations(tracker: str, read: Read, tmp_path: Path) -> None:
    places = {"WANDB_MODE": "offline", "TRACKIO_DIR": str(tmp_path / "trackio"), "PYTHONPATH": str(ROOT)}
    words = (*SMALL, "objective=stapo", "train.steps=2", f"log.trackers={tracker}", "output=run")
    command = [sys.executable, "-m", "rlzoo", "train", *words]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **places}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    config, steps = read(tmp_path)
    assert "train.learning_rate" in config and "stapo" in config
    metrics = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    for line in metrics:
        assert steps[line["step"]]["entropy"] == pytest.approx(line["entropy"], rel=1e-6)
    for step in (0, 2):
        assert 0 <= steps[step]["evaluation/T1-p1/accuracy"] <= 1


# ---- alerts ----------------------------------------------------------------------------------------------------------


def alerts_of_trackio(folder: Path) -> list[tuple[str, str]]:
    """The title and the text of each."""
    with sqlite3.connect(folder / "trackio" / "rlzoo.db") as database:
        return list(database.execute("select title, text from alerts"))


@pytest.mark.slow
def test_what_the_doctor_finds_while_a_run_goes_on_is_an_alert(
    tmp_path: Path,
) -> None:
    places = {"WANDB_MODE": "offline", "TRACKIO_DIR": str(tmp_path / "trackio"), "PYTHONPATH": str(ROOT)}
    words = (*SMALL, "objective=grpo-kl", "train.steps=4", "rollout.max_response_tokens=2")
    words += ("log.trackers=[trackio,wandb]",)
    command = [sys.executable, "-m", "rlzoo", "train", *words, "output=run"]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **places}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = alerts_of_trackio(tmp_path)
    assert "truncation at step 3" in dict(found)["truncation"] and len(dict(found)) == len(found)
    assert list(tmp_path.glob("run/wandb/offline-run-*/*.wandb"))


class Recorder:
    """A tracker of which alerts are kept."""

    def __init__(self) -> None:
        self.tracker, self.alerts = self, list[tuple[str, str]]()

    def alert(self, title: str, text: str) -> None:
        self.alerts.append((title, text))


def test_trackers_without_alerts_are_passed_over() -> None:
    recorder = Recorder()
    (finding,) = (found for found in examine(sick("truncation")).findings if found.name == "truncation")
    send_alerts([SimpleNamespace(tracker=object()), recorder], [finding])  # type: ignore[list-item]
    ((title, text),) = recorder.alerts
    assert title == "truncation" and "rollout.max_response_tokens" in text and finding.reason in text
