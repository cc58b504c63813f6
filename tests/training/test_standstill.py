"""A run that does not learn is told so by name: while it trains, once, and at its end."""

import json
from pathlib import Path
from typing import Any

import pytest

from rlzoo.commands import main
from rlzoo.config import Config, load_config
from rlzoo.training.standstill import PATIENCE, STANDSTILLS, StandstillWatch, standstill

WELL = {"step": 1, "reward": 0.5, "truncated": 0.1, "groups_without_signal": 0.5, "gradient_norm": 0.3, "entropy": 0.4}
WELL |= {"updates_skipped": 0}
ILL: list[tuple[dict[str, Any], str]] = [
    ({"truncated": 1.0, "groups_without_signal": 1.0, "gradient_norm": 0.0}, "all responses are truncated"),
    ({"groups_without_signal": 1.0, "gradient_norm": 0.0}, "no group has a signal"),
    ({"updates_skipped": 1, "gradient_norm": 0.0}, "no gradient is finite"),
    ({"gradient_norm": 0.0}, "the gradient is 0"),
    ({"entropy": 0.001}, "the entropy is gone"),
]


@pytest.mark.parametrize(("change", "name"), ILL)
def test_each_standstill_has_a_name_and_is_said_once_when_it_has_lasted(change: dict[str, Any], name: str) -> None:
    watch = StandstillWatch(Config())
    said = [watch(WELL)] + [watch(WELL | change) for _ in range(2 * PATIENCE)]
    assert [it is not None for it in said] == [False] * PATIENCE + [True] + [False] * PATIENCE
    assert str(said[PATIENCE]).startswith(name) and len(ILL) == len(STANDSTILLS)


def test_one_step_that_learns_ends_a_standstill() -> None:
    ill = [WELL | {"groups_without_signal": 1.0, "gradient_norm": 0.0}] * PATIENCE
    assert standstill(ill, Config()) is not None
    for well in ([*ill, WELL], [WELL, *ill[1:]], []):
        assert standstill(well, Config()) is None
    assert standstill(ill[:2], Config()) is not None  # at the end of a short run all steps count


@pytest.mark.parametrize("change", [it for it, name in ILL if "gradient" not in name])
def test_a_model_that_earns_less_than_at_first_and_has_no_signal_any_more_is_broken(change: dict[str, Any]) -> None:
    config = load_config(["train.learning_rate=1"])
    watch, ruined = StandstillWatch(config), WELL | change | {"reward": 0.0, "step": 9}
    said = [str(it) for it in map(watch, [WELL, *[ruined] * 3 * PATIENCE]) if it]
    assert said == [str(standstill([WELL, *[ruined] * PATIENCE], config))]
    assert "earned 0.5 in step 1 and 0 in step 9; lower train.learning_rate=1, the likely cause" in said[0]


@pytest.mark.slow
def test_a_model_that_earned_something_before_was_broken_and_the_default_learning_rate_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    small = ["rollout.prompts_per_step=2", "evaluation.problems=1", "evaluation.samples=1", "train.steps=7"]
    assert main(["train", "objective=grpo-kl", "train.learning_rate=1", "output=broken", *small]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "warning: training has broken the model" in said and "not learning: at the end training has broken" in said
    assert said.count("lower train.learning_rate=1, the likely cause; 0.00015 is the default here") == 2
    assert "choose problems" not in said and "raise rollout.max_response_tokens" not in said
    assert main(["train", "objective=grpo-kl", "train.learning_rate=0.00015", "output=mended", *small]) == 0
    assert "not learning" not in capsys.readouterr().out


def test_a_run_whose_problems_have_all_been_solved_is_not_broken() -> None:
    solved = [WELL | {"reward": 1.0, "groups_without_signal": 1.0, "gradient_norm": 0.0}] * PATIENCE
    assert str(standstill([WELL, *solved], Config())).startswith("no group has a signal")


def test_a_run_without_a_signal_says_so_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"question": f"{n}+1-1=", "answer": str(n)} for n in range(16)]
    Path("own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))  # nobody boxes an answer
    small = ["rollout.prompts_per_step=2", "evaluation.problems=1", "evaluation.samples=1"]
    steps = [f"train.steps={PATIENCE}", *small]
    assert main(["train", "objective=grpo-kl", "task.name=own.jsonl", "output=run", *steps]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("no group has a signal") == 2 and "warning: no group has a signal" in said
    assert "not learning: at the end no group has a signal" in said and "rlzoo task" in said
