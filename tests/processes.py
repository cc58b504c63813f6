"""Several processes joined by gloo, as torchrun starts them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
ONE = [sys.executable]
TWO = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
FOUR = [*TWO[:-1], "4"]


def launch(command: Sequence[str | Path], folder: Path = ROOT) -> str:
    """Runs it to its end, which must be good; returns what it printed."""
    done = _run(command, folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def failure(command: Sequence[str | Path], folder: Path = ROOT) -> str:
    """Runs it to its end, which must be bad; returns what it said of that."""
    done = _run(command, folder)
    assert done.returncode != 0, done.stdout[-3000:]
    return done.stderr


def _run(command: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, timeout=3000, cwd=folder, env=environment)
