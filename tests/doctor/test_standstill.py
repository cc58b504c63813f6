"""A run that learns nothing at its end says so, and why; a view shows it and trackers receive it, whatever the view."""

import json
from pathlib import Path

import numpy as np
import pytest

from rlzoo.commands import main
from rlzoo.doctor.detectors import DETECTORS, standstill
from rlzoo.doctor.indicators import PATIENCE
from tests.doctor.tables import STEPS, changed, healthy

STOPS = {
    "dead_groups": {"groups_without_signal": 1.0},
    "skipped_updates": {"updates_skipped": 1.0},
    "vanishing_gradient": {"gradient_norm": 0.0},
}


@pytest.mark.parametrize("name", STOPS)
def test_what_stops_learning_is_named_while_it_lasts_and_no_longer(name: str) -> None:
    assert [found.name for found in standstill(changed(STEPS - PATIENCE, **STOPS[name]))] == [name]
    mended = changed(STEPS - PATIENCE, **STOPS[name])
    for column, value in healthy().items():
        mended[column][-1] = value[-1]
    left = [found.name for found in standstill(mended)]
    assert left == ([name] if name == "skipped_updates" else [])  # which counts the last five steps
    assert not standstill(healthy()) and not standstill({})
    assert {detector.name for detector in DETECTORS if detector.stops_learning} == STOPS.keys()


def broken(reward: float) -> str:
    """What is said of a run whose groups lose their signal as its reward goes to a value."""
    table = changed(10, groups_without_signal=1.0, reward=reward, accuracy=0.0)
    return standstill(table)[0].reason


def test_a_model_that_earned_more_at_first_and_has_no_signal_any_more_is_broken() -> None:
    first = healthy()["reward"][0]
    assert f"broken the model, which earned {first:.3g} in step 1 and 0 in step {STEPS}" in broken(0.0)
    assert "lower train.learning_rate=1e-06, the likely cause" in broken(0.0)
    assert "broken" not in broken(0.9)
    never = {**changed(0, groups_without_signal=1.0), "reward": np.linspace(0.4, 0.0, STEPS)}
    assert "broken" not in standstill(never)[0].reason


def test_a_run_without_a_signal_says_so_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"question": f"{n}+1-1=", "answer": str(n)} for n in range(16)]
    Path("own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))  # no response boxes an answer
    small = ["rollout.prompts_per_step=7", "evaluation.problems=1", "evaluation.samples=1"]
    steps = [f"train.steps={PATIENCE}", *small]
    assert main(["train", "objective=grpo-kl", "task.name=own.jsonl", "output=run", *steps]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "finding: dead groups at step 3" in said and "not learning: dead groups at step 3" in said
    assert said.count("look at responses and rewards: rlzoo task shows both") == 2
