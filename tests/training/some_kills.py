"""Run by test_kills.py, in a process without threads, of which benchmarks.faults makes forks.

`python -m tests.training.some_kills FOLDER`
"""

import sys
from pathlib import Path
from signal import SIGKILL, SIGTERM

from benchmarks.faults.striking import Trial
from benchmarks.faults.workloads import EVALUATED, LOPTI, UNSAVED_STARE

TRIALS = ((LOPTI, SIGKILL, 3), (EVALUATED, SIGKILL, 2), (UNSAVED_STARE, SIGTERM, 3))


def main(folder: Path) -> None:
    """Writes what came of each trial into a file of its own."""
    for workload, number, wanted in TRIALS:
        own = folder / f"{number.name}-{workload.name}"
        Trial(workload, number, wanted, own, own.with_suffix(".jsonl"), seed=1)()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
