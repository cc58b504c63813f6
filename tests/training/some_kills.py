"""Run by test_kills.py, in a process without threads, of which benchmarks.faults makes forks.

`python -m tests.training.some_kills FOLDER STRIKES`
"""

import sys
from pathlib import Path
from signal import SIGKILL, SIGTERM

from benchmarks.faults.striking import Trial
from benchmarks.faults.workloads import EVALUATED, LOPTI, UNSAVED_STARE

TRIALS = ((LOPTI, SIGKILL), (EVALUATED, SIGKILL), (UNSAVED_STARE, SIGTERM))


def main(folder: Path, wanted: int) -> None:
    """Writes what came of each trial into a file of its own."""
    for workload, number in TRIALS:
        own = folder / f"{number.name}-{workload.name}"
        Trial(workload, number, wanted, own, own.with_suffix(".jsonl"), seed=1)()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
