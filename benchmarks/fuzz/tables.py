"""What came of the cases, in Markdown."""

import platform
from collections import defaultdict
from collections.abc import Sequence

from benchmarks.fuzz.trials import Verdict


def table(verdicts: Sequence[Verdict]) -> str:
    """A row for each subject: how many files, how the commands ended, the slowest, and what was wrong."""
    of_subject: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        of_subject[verdict.subject].append(verdict)
    lines = [
        "| file | files | read (0) | fault or finding (1) | refused (2) | slowest, s | wrong |",
        "|---|" + "---:|" * 6,
    ]
    lines += [_row(name, several) for name, several in of_subject.items()]
    return "\n".join([*lines, _row("all", verdicts)])


def _row(name: str, verdicts: Sequence[Verdict]) -> str:
    counts = [sum(it.status == status for it in verdicts) for status in (0, 1, 2)]
    slowest, wrong = max(it.seconds for it in verdicts), sum(bool(it.wrong) for it in verdicts)
    return f"| {name} | {len(verdicts)} | {' | '.join(map(str, counts))} | {slowest:.1f} | {wrong} |"


def said_of(verdicts: Sequence[Verdict], typed: Sequence[Verdict], seed: int, seconds: float, used: float) -> str:
    """How long it took, and of how many files something was wrong."""
    wrong = sum(bool(it.wrong) for it in (*verdicts, *typed))
    beside = f", {len(typed)} of them through the command line as well" if typed else ""
    took = f"{seconds / 60:.1f} minutes, {used / 60:.1f} of them of a CPU, Python {platform.python_version()}"
    return f"Seed {seed}: {len(verdicts)} files{beside}; {wrong} went wrong. {took}."
