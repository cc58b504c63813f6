"""Ten thousand damaged and hostile files, each read by the command that it is for.

python -m benchmarks.fuzz                          # all of them, and the results
python -m benchmarks.fuzz files=500 seed=7         # fewer, and others
python -m benchmarks.fuzz subject=metrics files=90 # those of one subject
python -m benchmarks.fuzz case=1234                # one of the ten thousand, with what it says; its folder stays
"""

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.fuzz.running import FILES, by_command_line, cases_of, fuzz, show_case
from benchmarks.fuzz.tables import said_of, table
from rlzoo.files import write_text

RESULTS = Path(__file__).parent / "results"
TYPED = 20
_IN_MEMORY = "/dev/shm"


def main(words: list[str]) -> int:
    """Does what is asked; 1 if anything is wrong."""
    asked = dict(word.split("=", 1) for word in words)
    folder = Path(
        asked.get("sandbox")
        or tempfile.mkdtemp(prefix="rlzoo-fuzz-", dir=_IN_MEMORY if os.path.isdir(_IN_MEMORY) else None)
    )
    seed, files = int(asked.get("seed", 0)), int(asked.get("files", FILES))
    cases = cases_of(files, seed, subject=asked.get("subject", ""))
    is_whole = not asked.keys() - {"jobs", "sandbox"}
    if "case" in asked:
        return show_case(cases[int(asked["case"])], folder)
    started = time.monotonic()
    verdicts = list(fuzz(cases, folder, jobs=int(asked.get("jobs", 2))))
    wrong = [it for it in verdicts if it.wrong]
    for it in wrong:
        print(f"{it.number} {it.subject}: {it.wrong}\n    rlzoo {' '.join(it.words)!r:.200}\n    {it.said[-300:]!r}")
    used = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    typed = by_command_line(cases, folder, TYPED) if is_whole else []
    wrong += [it for it in typed if it.wrong]
    summary = said_of(verdicts, typed, seed, time.monotonic() - started, used)
    print(table(verdicts), summary, sep="\n\n")
    if is_whole:
        write_text(RESULTS / "table.md", f"{table(verdicts)}\n\n{summary}\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
