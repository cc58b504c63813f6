"""Kills training, grids and evaluations at random moments, and asks whether anything of it shows in what they leave.

python -m benchmarks.faults one             # 138 times SIGKILL to what runs in one process
python -m benchmarks.faults two             # 40 times SIGKILL to what runs in two
python -m benchmarks.faults asked           # 40 times SIGTERM to the whole process group
python -m benchmarks.faults grid            # 14 times SIGKILL to a grid of three runs, two side by side
python -m benchmarks.faults asked_grid      # 8 times SIGTERM to it
python -m benchmarks.faults anew one two    # the same, in place of what is recorded of them
python -m benchmarks.faults                 # the table of what is recorded

Each goes on where it was stopped, with the code that it began with. What is trained lies in a temporary folder, and
what came of it in results/.
"""

import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults.code_of_record import begin, code_digest, code_sentence, refuse_other_code
from benchmarks.faults.starting import import_all
from benchmarks.faults.striking import End, Strike, Trial, read
from benchmarks.faults.workloads import ASKED, ASKED_GRIDS, GRIDS, ONE, TWO, Workload
from rlzoo.files import write_text

RESULTS = Path(__file__).parent / "results"
STATE = Path(tempfile.gettempdir()) / f"rlzoo-faults-{code_digest()}"
"""The undisturbed runs are of the code that is killed: other code trains them anew."""
ANEW = "anew"
TITLES = {
    "one": "in one process",
    "two": "in two processes",
    "asked": "to the whole process group",
    "grid": "in a grid of three runs, two side by side",
    "asked_grid": "to such a grid",
}
KINDS: dict[str, tuple[signal.Signals, Sequence[tuple[Workload, int]]]] = {
    "one": (signal.SIGKILL, ONE),
    "two": (signal.SIGKILL, TWO),
    "asked": (signal.SIGTERM, ASKED),
    "grid": (signal.SIGKILL, GRIDS),
    "asked_grid": (signal.SIGTERM, ASKED_GRIDS),
}
"""The signal, and how often each workload gets it."""


def main(words: Sequence[str]) -> None:
    """Does the kinds that are asked for, one workload after another, then writes the table of all that is recorded."""
    kinds = [word for word in words if word != ANEW]
    if unknown := set(kinds) - KINDS.keys():
        sys.exit(f"{', '.join(sorted(unknown))}: there are {', '.join(KINDS)}, and {ANEW} before them")
    if ANEW in words:
        forget(kinds)
    for kind in kinds:
        refuse_other_code(RESULTS, kind, f"python -m benchmarks.faults {ANEW} {kind}")
    import_all()
    for kind in kinds:
        begin(RESULTS, kind)
    for kind, (number, trials) in KINDS.items():
        for workload, wanted in trials if kind in kinds else ():
            record = record_of(kind, workload)
            Trial(workload, number, wanted, STATE / record.stem, record)()
    write_text(RESULTS / "faults.md", "\n".join(table(kind) for kind in KINDS))


def forget(kinds: Sequence[str]) -> None:
    """Removes what is recorded of some kinds, and what they have trained."""
    for kind in kinds:
        for record in RESULTS.glob(f"{kind}-*.jsonl"):
            record.unlink()
        for folder in STATE.glob(f"{kind}-*"):
            shutil.rmtree(folder)


def record_of(kind: str, workload: Workload) -> Path:
    """Where it is written what came of the kills of a workload."""
    return RESULTS / f"{kind}-{workload.name.replace(',', '').replace(' ', '-')}.jsonl"


def table(kind: str) -> str:
    """A row for each workload, in Markdown."""
    number, trials = KINDS[kind]
    lines = [
        f"## {number.name} {TITLES[kind]}",
        "",
        code_sentence(RESULTS, kind),
        "",
        "| workload | signals | runs | as undisturbed | most finished steps lost | statuses | while |",
        "|---|---|---|---|---|---|---|",
    ]
    every: list[Strike | End] = []
    for workload, _ in trials:
        records = list(read(record_of(kind, workload)))
        every += records
        lines.append(_row(workload.name, records))
    return "\n".join([*lines, _row("**all**", every), ""])


def _row(name: str, records: Sequence[Strike | End]) -> str:
    strikes = [it for it in records if isinstance(it, Strike) and it.status]  # not one that came after the end
    ends = [it for it in records if isinstance(it, End)]
    good = sum(not it.differences and not it.status for it in ends)
    stages = {stage: sum(it.under_way == stage for it in strikes) for stage in sorted({it.under_way for it in strikes})}
    statuses = ", ".join(map(str, sorted({it.status for it in strikes})))
    return " | ".join(
        [
            f"| {name}",
            str(len(strikes)),
            str(len(ends)),
            f"{good} of {len(ends)}",
            str(max((it.lost for it in strikes), default=0)),
            statuses,
            ", ".join(f"{stage} {count}" for stage, count in stages.items()) + " |",
        ]
    )


if __name__ == "__main__":
    main(sys.argv[1:])
