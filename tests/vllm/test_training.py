"""Training through the command line comes to the same whichever engine samples."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlzoo.run import RunFolder

ENGINES = ("vllm", "transformers")
TRAIN = (
    sys.executable,
    "-m",
    "rlzoo",
    "train",
    "configs/smollm2.yaml",
    "objective=stapo+clip_higher",
    "rollout.prompts_per_step=8",
    "train.steps=10",
    "train.learning_rate=3e-5",
    "train.warmup_steps=1",
    "evaluation.problems=64",
)


@pytest.mark.timeout(1200)
def test_ten_steps_on_a_real_model_reach_the_same_accuracy(tmp_path: Path) -> None:
    repository = Path(__file__).parents[2]
    runs = [
        subprocess.Popen(
            [*TRAIN, f"rollout.engine={name}", f"output={tmp_path / name}"],
            cwd=repository,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ENGINES
    ]
    for run in runs:
        complaints = run.communicate()[1]
        assert run.returncode == 0 and "Traceback" not in complaints, complaints
    found = [RunFolder(tmp_path / name).evaluations() for name in ENGINES]
    for evaluations in found:
        assert evaluations[10].accuracy.low > evaluations[0].accuracy.high, "nothing was learnt, so nothing is compared"
    for step in (0, 10):
        one, other = (evaluations[step].accuracy for evaluations in found)
        assert one.low <= other.high and other.low <= one.high, (one, other)
