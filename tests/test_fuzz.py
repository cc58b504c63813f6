"""Damaged and hostile files end no command but in a line: a short form of `python -m benchmarks.fuzz`."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from benchmarks.fuzz import running
from benchmarks.fuzz.received import OUTSIDE
from benchmarks.fuzz.running import cases_of
from benchmarks.fuzz.seeds import make_files
from benchmarks.fuzz.subjects import SUBJECTS
from benchmarks.fuzz.trials import LONGEST, Writes, unclear


@pytest.mark.exhaustive
def test_no_file_gives_a_traceback_or_a_hang_or_anything_outside() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as sandbox:  # pytest's own path would be too long for sockets in it
        command = [sys.executable, "-m", "benchmarks.fuzz", "files=1000", "seed=1", f"sandbox={sandbox}"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1], timeout=1200)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]


def test_a_worker_that_fails_ends_the_fuzz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_load", lambda: sys.exit("no such module"))
    sandbox, seeds = running.Sandbox(tmp_path), running.Seeds(tmp_path / "seeds")
    with pytest.raises(RuntimeError, match="a worker of the fuzz failed"):
        list(running._from_workers([[], cases_of(1, seed=1)], seeds, sandbox))


def test_a_number_and_a_seed_make_the_same_file_every_time(tmp_path: Path) -> None:
    seeds, cases = make_files(tmp_path / "seeds"), cases_of(120, seed=3, with_runs=False)
    made: list[list[tuple[list[str], list[bytes]]]] = [[], []]
    for place, found in enumerate(made):
        for case in cases:
            folder = tmp_path / str(place) / str(case.number)
            words = case.make(seeds, folder)
            files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size < 1e6)
            files = [path for path in files if path.suffix != ".parquet"]
            found.append((words, [path.read_bytes() for path in files]))
    assert made[0] == made[1]
    assert len({str(it) for it in made[0]}) > 0.9 * len(cases)


def test_each_kind_of_file_that_a_command_reads_is_fuzzed() -> None:
    names = " ".join(subject.name for subject in SUBJECTS)
    for kind in (
        "expression",
        "configuration",
        "JSONL",
        "parquet",
        "metrics",
        "objective.json",
        "grid.json",
        "model.safe",
        "chat template",
        "push",
        "looks.json",
        "adapter_config.json",
        "suite: cells.jsonl",
    ):
        assert kind in names
    assert sum(subject.share for subject in SUBJECTS) == 10_000


def test_what_is_written_through_a_link_is_written_where_that_leads(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / OUTSIDE / "file")
    for event, arguments, is_outside in (
        ("open", (tmp_path / "link", "w", os.O_WRONLY), True),
        ("open", (tmp_path / "link", "r", os.O_RDONLY), False),
        ("open", (tmp_path / "file", "w", os.O_WRONLY), False),
        ("os.remove", (tmp_path / "link", -1), False),
        ("os.remove", (tmp_path / OUTSIDE / "file", -1), True),
    ):
        writes = Writes(tmp_path)
        writes(event, arguments)
        assert bool(writes.outside) == is_outside, (event, arguments)


@pytest.mark.parametrize(
    ("status", "text", "says"),
    [
        (None, "", "has status None"),
        (3, "", "has status 3"),
        (2, "", "says 0 lines"),
        (2, "rlzoo: error: a\nrlzoo: error: b\n", "says 2 lines"),
        (1, "Traceback (most recent call last):\n", "shows a traceback"),
        (0, "\x1b[31mred", "as it is"),
        (0, "\u202eturned", "as it is"),
        (2, f"rlzoo: error: {'x' * LONGEST}", "says a line of"),
        (2, "rlzoo: error: a is no number; give one\n", ""),
        (0, "well\n", ""),
    ],
)
def test_what_is_no_clear_end_is_seen(status: int | None, text: str, says: str) -> None:
    assert says in unclear(status, text) if says else unclear(status, text) == ""
