"""The statistics are for anyone: arrays in, values out, whatever trained the models."""

import subprocess
import sys
from pathlib import Path

import pytest

ALONE = """
import importlib, pkgutil, sys
import numpy as np
import rlzoo.statistics
for module in pkgutil.iter_modules(rlzoo.statistics.__path__):
    importlib.import_module(f"rlzoo.statistics.{module.name}")
from rlzoo.statistics.differences import RunScores
from rlzoo.statistics.family import Measure
from rlzoo.statistics.verdicts import judge
generator = np.random.default_rng(0)
answers = {"a": generator.binomial(8, 0.4, (3, 400)) / 8, "b": generator.binomial(8, 0.6, (3, 400)) / 8}
scores = {name: RunScores((0, 1, 2), values) for name, values in answers.items()}
(page,) = judge([Measure(scores, 1 / 8, {"a": "a", "b": "b"})], "a")
print(page.rows["b"].verdict.finding.name)
print(*sorted({name.split(".")[0] for name in sys.modules} & {"torch", "transformers", "omegaconf", "objectives"}))
print(*sorted(name for name in sys.modules if name.startswith("rlzoo.") and "statistics" not in name))
"""


@pytest.mark.slow
def test_they_are_imported_without_torch_and_without_the_rest_of_rlzoo_and_judge_arrays() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ALONE], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["BETTER", "", "rlzoo.errors"]
