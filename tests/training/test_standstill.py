"""A run that does not learn is told so by name: while it trains, once, and at its end."""

import json
from pathlib import Path
from typing import Any

import pytest

from rlzoo.commands import main
from rlzoo.training.standstill import PATIENCE, STANDSTILLS, Watch, standstill

WELL = {"truncated": 0.1, "groups_without_signal": 0.5, "gradient_norm": 0.3, "updates_skipped": 0, "entropy": 0.4}
ILL: list[tuple[dict[str, Any], str]] = [
    ({"truncated": 1.0, "groups_without_signal": 1.0, "gradient_norm": 0.0}, "all responses are truncated"),
    ({"groups_without_signal": 1.0, "gradient_norm": 0.0}, "no group has a signal"),
    ({"updates_skipped": 1, "gradient_norm": 0.0}, "no gradient is finite"),
    ({"gradient_norm": 0.0}, "the gradient is 0"),
    ({"entropy": 0.001}, "the entropy is gone"),
]


@pytest.mark.parametrize(("change", "name"), ILL)
def test_each_standstill_has_a_name_and_is_said_once_when_it_has_lasted(change: dict[str, Any], name: str) -> None:
    watch = Watch()
    said = [watch(WELL)] + [watch(WELL | change) for _ in range(2 * PATIENCE)]
    assert [it is not None for it in said] == [False] * PATIENCE + [True] + [False] * PATIENCE
    assert str(said[PATIENCE]).startswith(name) and len(ILL) == len(STANDSTILLS)


def test_one_step_that_learns_ends_a_standstill() -> None:
    ill = [WELL | {"groups_without_signal": 1.0, "gradient_norm": 0.0}] * PATIENCE
    assert standstill(ill) is not None
    assert standstill([*ill, WELL]) is None and standstill([WELL, *ill[1:]]) is None and standstill([]) is None
    assert standstill(ill[:2]) is not None  # at the end of a short run all steps count


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
