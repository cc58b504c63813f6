"""A file or a folder is whole or not there, whoever is killed meanwhile; nothing stays of what a killed one left."""

import errno
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from rlzoo.config import load_config
from rlzoo.errors import UserError, fault_in
from rlzoo.experiment.claim import LOCK, claim
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import (
    append_json_line,
    clear_leftovers,
    file_written_atomically,
    folder_written_atomically,
    read_json_file,
    read_json_lines,
    write_json,
    write_json_lines,
    write_text,
)

WRITING = """
import os, sys
from pathlib import Path
import rlzoo.files as files
target, where = Path(sys.argv[1]), sys.argv[2]
def wait(*_):
    print("writing", flush=True)
    sys.stdin.readline()
if where == "between":
    renamed = os.rename
    os.rename = lambda source, to: wait() if Path(to) == target else renamed(source, to)
if where == "file":
    with files.file_written_atomically(target) as file:
        file.write(b"half")
        wait()
else:
    with files.folder_written_atomically(target) as folder:
        (folder / "file").write_text("new")
        if where == "folder":
            wait()
"""


class Writer:
    """A process that is amid writing a target, in a way that `where` says: a file, a folder, between two renames."""

    def __init__(self, target: Path, where: str) -> None:
        words = [sys.executable, "-c", WRITING, str(target), where]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout and self.process.stdout.readline() == "writing\n"

    def is_killed(self) -> None:
        self.process.kill()
        self.process.communicate()

    def goes_on(self) -> None:
        self.process.communicate("\n")


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def old_folder(target: Path) -> None:
    target.mkdir()
    (target / "file").write_text("old")


@pytest.mark.parametrize(("where", "left"), [("file", set()), ("folder", set()), ("between", {"target/file"})])
def test_what_a_living_process_writes_is_left_alone_and_what_a_killed_one_left_is_cleared(
    where: str, left: set[str], tmp_path: Path
) -> None:
    target = tmp_path / "target"
    if where == "between":
        old_folder(target)
    writer = Writer(target, where)
    before = names(tmp_path)
    assert before - left
    clear_leftovers(tmp_path)
    assert names(tmp_path) == before
    writer.is_killed()
    clear_leftovers(tmp_path)
    assert names(tmp_path) == left
    assert not left or (target / "file").read_text() == "old"


def test_the_first_that_a_process_writes_in_a_folder_clears_it(tmp_path: Path) -> None:
    killed, living = Writer(tmp_path / "killed", "folder"), Writer(tmp_path / "living", "file")
    killed.is_killed()
    write_text(tmp_path / "other", "whole")
    assert len(names(tmp_path)) == 2
    living.goes_on()
    assert names(tmp_path) == {"other", "living"} and (tmp_path / "living").read_text() == "half"


def test_a_file_that_a_clearing_process_takes_first_is_written_under_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, calls = fcntl.flock, []

    def taken(file: object, operation: int) -> None:
        calls.append(file)
        if len(calls) == 1:
            raise BlockingIOError
        if len(calls) == 2:
            Path(file.name).unlink()  # type: ignore[attr-defined]
        flock(file, operation)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", taken)
    write_text(tmp_path / "file", "whole")
    clear_leftovers(tmp_path)
    assert names(tmp_path) == {"file"} and (tmp_path / "file").read_text() == "whole"


def test_what_others_hide_is_no_leftover(tmp_path: Path) -> None:
    for name in (".bashrc.old", ".notes.new/text", ".film.partial", ".config.yaml.abcdefgh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    before = names(tmp_path)
    with folder_written_atomically(tmp_path / "folder") as folder:
        (folder / "file").touch()
    assert names(tmp_path) == before | {"folder/file"}


def test_the_name_of_a_strangers_leftover_reaches_nothing_else(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.write_text("kept")
    for name in ("..a.rlzoo-partial", "...a.rlzoo-partial", "....a.rlzoo-partial"):
        (folder / name).touch()
    (folder / ".linked.a.rlzoo-partial").symlink_to(outside)
    (folder / ".linked.a.old").symlink_to(tmp_path)
    clear_leftovers(folder)
    assert outside.read_text() == "kept" and outside.parent == tmp_path and folder.is_dir()


def test_a_run_begins_in_a_folder_without_leftovers(tmp_path: Path) -> None:
    folder, config = RunFolder(tmp_path / "run"), load_config([f"output={tmp_path / 'run'}"])
    Writer(folder.config, "file").is_killed()
    claim(folder, config).close()
    Writer(folder / "checkpoints" / "step-000002", "folder").is_killed()
    Writer(folder / "evaluation" / "step-000000", "file").is_killed()
    claim(folder, config).close()
    assert names(folder.path) == {"config.yaml", "objective.json", "environment.json", "content.json", LOCK}


def test_a_disk_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))))
    folder, config = RunFolder(tmp_path / "run"), load_config([f"output={tmp_path / 'run'}"])
    with pytest.raises(UserError, match=r"output=.*run: its disk has no file locks .*; choose another output="):
        claim(folder, config)


def test_half_a_character_is_written_as_it_was_read(tmp_path: Path) -> None:
    half = {"text": json.loads('"\\ud800 and a whole one: \\u00e9"')}
    write_json(tmp_path / "one.json", half)
    write_json_lines(tmp_path / "lines.jsonl", [half])
    append_json_line(tmp_path / "lines.jsonl", half)
    assert read_json_file(tmp_path / "one.json") == half
    assert read_json_lines(tmp_path / "lines.jsonl") == [half, half]


def test_a_folder_where_lines_should_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "metrics.jsonl").symlink_to(tmp_path / "folder")
    with pytest.raises(UserError, match=r"metrics\.jsonl is not readable"):
        read_json_lines(tmp_path / "metrics.jsonl")


def test_a_link_that_is_named_as_something_half_written_is_not_opened(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.touch()
    link = tmp_path / "run" / ".x.a.rlzoo-partial"
    link.parent.mkdir()
    link.symlink_to(outside)
    clear_leftovers(link.parent)
    assert link.is_symlink() and outside.exists()


def full_file(path: Path) -> None:
    with file_written_atomically(path) as file:
        os.dup2(os.open("/dev/full", os.O_WRONLY), file.fileno())
        file.write(b"some")


def full_folder(path: Path) -> None:
    with folder_written_atomically(path), open("/dev/full", "w") as file:
        file.write("some")


def full_folder_of_a_library(path: Path) -> None:
    with folder_written_atomically(path):
        raise RuntimeError(f"I/O error: {os.strerror(errno.ENOSPC)} (os error 28)")  # as safetensors has it


@pytest.mark.parametrize("write", [full_file, full_folder, full_folder_of_a_library])
def test_a_full_disk_says_what_could_not_be_written_and_leaves_nothing(
    write: Callable[[Path], None], tmp_path: Path
) -> None:
    with pytest.raises(OSError) as error:
        write(tmp_path / "target")
    assert fault_in(error.value).startswith(f"{tmp_path / 'target'}: the disk is full") and not names(tmp_path)


def test_a_full_disk_says_which_file_could_not_grow() -> None:
    with pytest.raises(OSError) as error:
        append_json_line(Path("/dev/full"), {"step": 1})
    assert fault_in(error.value).startswith("/dev/full: the disk is full")


def test_a_failing_disk_says_what_could_not_be_written(tmp_path: Path) -> None:
    with pytest.raises(OSError) as error, file_written_atomically(tmp_path / "target"):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    assert fault_in(error.value).startswith(f"{tmp_path / 'target'}: {os.strerror(errno.EIO)}; the disk fails")


def test_an_error_of_what_is_written_stays_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match=r"^gone$"), file_written_atomically(tmp_path / "target"):
        raise ConnectionError("gone")
