"""What is shown of the adapter runs as it stands there: the example, its curve, and the demo of normalisation."""

import re
import sys
from pathlib import Path

import torch

from tests.processes import ROOT, launch


def test_the_example_ends_with_two_accuracies_and_its_log_is_a_curve(tmp_path: Path) -> None:
    example = [sys.executable, ROOT / "examples" / "trl_sums.py", "objective=stapo", "steps=2"]
    printed = launch([*example, f"output={tmp_path}"])
    before, after = map(float, re.findall(r"([0-9.]+)% (?:before|after)", printed))
    assert 20 < before < 50 and 20 < after < 50
    said = launch([sys.executable, ROOT / "examples" / "learning_curve.py", tmp_path / "trainer_state.json"])
    assert said.strip() == f"{tmp_path / 'curve.png'}: 2 steps" and (tmp_path / "curve.png").stat().st_size > 5_000


def test_what_an_objective_decides_does_not_move_with_the_cut_of_the_batch(tmp_path: Path) -> None:
    launch([sys.executable, "-m", "benchmarks.normalisation.in_trl", tmp_path])
    gradients: dict[str, dict[int, torch.Tensor]] = {}
    for path in tmp_path.glob("*.pt"):
        kept = torch.load(path)
        gradients.setdefault(kept["loss"], {})[kept["cut"]] = kept["gradient"]
    moved = {
        loss: max(float((found - cuts[1]).norm() / cuts[1].norm()) for found in cuts.values())
        for loss, cuts in gradients.items()
    }
    assert {loss for loss, most in moved.items() if most > 1e-5} == {"bnpo", "dapo, top_entropy_quantile=0.2"}
    assert len(moved) == 7 and min(moved["bnpo"], moved["dapo, top_entropy_quantile=0.2"]) > 0.1
