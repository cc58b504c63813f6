"""Files that are either whole or not there."""

import fcntl
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from rlzoo.errors import UserError

_READABLE = 0o644
"""The mode of files, whatever a library gives those that it writes; folders keep others out where that is wanted."""


@contextmanager
def file_written_atomically(path: Path) -> Iterator[IO[bytes]]:
    """A file beside `path` that takes its place, whole, when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _READABLE)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def folder_written_atomically(target: Path) -> Iterator[Path]:
    """A folder beside `target` that takes its place, whole, when the block ends without an error."""
    folder = target.with_name(f".{target.name}.{os.getpid()}.new")
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    folder.mkdir(parents=True)
    try:
        yield folder
        for file in folder.rglob("*"):
            if file.is_file():
                file.chmod(_READABLE)
        if target.exists():
            os.rename(target, old)
        os.rename(folder, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Writes a text file atomically."""
    with file_written_atomically(path) as file:
        file.write(text.encode())


def write_json(path: Path, value: Any) -> None:
    """Writes a value as indented JSON, atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_json_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Writes records one a line, atomically."""
    write_text(path, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))


def append_json_line(path: Path, record: Mapping[str, Any]) -> None:
    """Appends one record as one line in one write."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a file; a last line that a kill cut short is left out. Raises UserError for another such line."""
    if not path.exists():
        return []
    records, lines = [], path.read_text(encoding="utf-8", errors="replace").split("\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            records += [json.loads(line)] if line else []
        except ValueError:
            remedy = "put back a copy, or remove the line"
            raise UserError(f"{path} is damaged: line {number} is not readable as JSON; {remedy}") from None
    return records


def locked(path: Path) -> IO[str] | None:
    """The file, locked until it is closed or the last process that has it open ends; None if another has the lock."""
    file = path.open("a", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def slug(text: str) -> str:
    """A name that needs no quoting in a shell and hides from nobody."""
    return re.sub(r"[^\w.+=-]+", "-", text).lstrip("-.").rstrip("-")
