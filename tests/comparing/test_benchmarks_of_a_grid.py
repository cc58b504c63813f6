"""From `rlzoo compare` over `rlzoo eval benchmarks=all` to the leaderboard of the benchmarks, as a user does it."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.evaluation.test_resumed_evaluation import command, small_benchmarks
from tests.processes import ROOT

TINY = ("train.steps=1", "rollout.prompts_per_step=2", "rollout.responses_per_prompt=4", "evaluation.problems=4")


@pytest.mark.exhaustive
def test_two_objectives_and_two_seeds_are_compared_on_all_benchmarks(tmp_path: Path) -> None:
    def rlzoo(*words: str) -> None:
        subprocess.run([sys.executable, "-m", "rlzoo", *words], check=True, capture_output=True, env=environment)

    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    data, grid = small_benchmarks(tmp_path / "data"), tmp_path / "grid"
    rlzoo("compare", "grpo", "stapo", "seeds=0,1", f"output={grid}", *TINY)
    for name in ("grpo-0", "grpo-1", "stapo-0", "stapo-1"):
        run = grid / name
        rlzoo(*command(data, run / "evaluation", target=str(run))[3:])
    rlzoo("leaderboard", str(grid), "benchmarks=all", f"output={tmp_path / 'board'}")
    with (tmp_path / "board" / "leaderboard.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 2 * 7 and lines[0]["problem_set"] == "macro average"
    assert {(line["objective"], line["seeds"]) for line in lines} == {("grpo", "0 1"), ("stapo", "0 1")}
    for line in lines:
        assert (line["difference"] == "") == (line["objective"] == "grpo")
        verdicts = ("baseline", "better", "worse", "not distinguishable", "too few seeds", "the same responses")
        assert line["verdict"] in verdicts
