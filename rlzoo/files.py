"""Files that are either whole or not there."""

import codecs
import contextlib
import errno
import fcntl
import itertools
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Any, cast

from rlzoo.errors import UserError, is_disk_full
from rlzoo.records import Fields, reading

DEEPEST = 512
"""Levels of JSON that libraries follow without running out of stack."""
_READABLE = 0o644
"""The mode of files, whatever a library gives those that it writes; folders keep others out where that is wanted."""
_ANY = Fields({})
_HALVES = "backslashreplace"
"""What is done with half a character, which is none in UTF-8."""
_PARTIAL = ".rlzoo-partial"
"""How the name of a hidden file ends that stands for something half written."""
_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE)
"""What befalls a file that is open already, so that the system does not name it."""


@contextmanager
def file_written_atomically(path: Path) -> Iterator[IO[bytes]]:
    """A file beside `path` that takes its place, whole, when the block ends without an error."""
    with _partial(path) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
        os.chmod(file.name, _READABLE)
        os.replace(file.name, path)


@contextmanager
def folder_written_atomically(target: Path) -> Iterator[Path]:
    """A folder beside `target` that takes its place, whole, when the block ends without an error."""
    with _partial(target) as partial:
        folder, old = _beside(Path(partial.name))
        folder.mkdir()
        yield folder
        for file in folder.rglob("*"):
            if file.is_file():
                file.chmod(_READABLE)
        if target.exists():
            os.rename(target, old)
        os.rename(folder, target)


def made_folder(path: Path) -> Path:
    """The folder of `output=`, made if it is not there. Raises UserError if it cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"output={path} cannot be written: {error.strerror}; choose another") from None
    return path


@contextmanager
def _partial(target: Path) -> Iterator[IO[bytes]]:
    """A file beside the target that is locked while that is written; where it is not, its process was killed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _clear_once(target.parent.resolve())
    with _named(target), _locked_file(target) as file:
        try:
            yield file
        finally:
            _remove(Path(file.name), target)


@contextmanager
def _named(target: Path) -> Iterator[None]:
    """Raises OSError that names what is written for a disk that is full or fails, also where a library says so."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        number = getattr(error, "errno", None) or (errno.ENOSPC if is_disk_full(error) else None)
        if number not in _OF_DISKS or getattr(error, "filename", None):
            raise
        raise OSError(number, os.strerror(number), str(target)) from error


def _locked_file(target: Path) -> IO[bytes]:
    folder, prefix = target.parent, f".{target.name}."
    while True:
        file = tempfile.NamedTemporaryFile(dir=folder, prefix=prefix, suffix=_PARTIAL, delete=False)  # noqa: SIM115
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = Path(file.name).exists()  # a process that clears up may have been faster
        except BlockingIOError:
            is_ours = False
        except OSError:  # a disk without locks: nothing is cleared up there
            is_ours = True
        if is_ours:
            return cast(IO[bytes], file)
        file.close()


def _beside(partial: Path) -> tuple[Path, Path]:
    """Where a folder is made, and where that is put which it replaces."""
    return partial.with_suffix(".new"), partial.with_suffix(".old")


def _remove(partial: Path, target: Path) -> None:
    """Removes what is half written, and puts back what was set aside for it."""
    folder, old = _beside(partial)
    if old.exists() and not target.exists():
        os.rename(old, target)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)
    partial.unlink(missing_ok=True)  # the last, as the others are found by it


def clear_leftovers(parent: Path) -> None:
    """Removes what killed processes left half written in a folder, and puts back what they had set aside for it.

    What a living process writes is locked, on whatever machine that is, and is left alone.
    """
    for partial in parent.glob(f".*{_PARTIAL}"):
        # it is locked, another was faster, or its name is not one that was given here
        with contextlib.suppress(OSError, ValueError), open(partial, "r+b", opener=_unless_a_link) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(partial, partial.with_name(partial.name[1:].rsplit(".", 2)[0]))


_clear_once = cache(clear_leftovers)


def open_to_append(path: Path) -> IO[str]:
    """A text file that grows."""
    return cast(IO[str], open(path, "a", encoding="utf-8", errors=_HALVES))


def _unless_a_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, _READABLE)


def encoded(text: str) -> bytes:
    r"""UTF-8; half a character, as JSON may name one, stays the escape that it is in JSON, `\ud800`."""
    return text.encode(errors=_HALVES)


def write_text(path: Path, text: str) -> None:
    """Writes a text file atomically."""
    with file_written_atomically(path) as file:
        file.write(encoded(text))


def write_json(path: Path, value: Any) -> None:
    """Writes a value as indented JSON, atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_json_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Writes records one a line, atomically."""
    with file_written_atomically(path) as file:
        for record in records:
            file.write(encoded(f"{json.dumps(record, ensure_ascii=False)}\n"))


def append_json_line(path: Path, record: Mapping[str, Any]) -> None:
    """Appends one record as one line in one write."""
    with _named(path), open_to_append(path) as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


def text_of(path: Path) -> str:
    """The text of a file in UTF-8, or UTF-16 where its mark says so; without the mark. Raises UnicodeDecodeError."""
    content = path.read_bytes()
    return content.decode(encoding_of(content))


def encoding_of(beginning: bytes) -> str:
    """UTF-16 where a file begins with its mark, otherwise UTF-8; reading leaves the mark out."""
    return "utf-16" if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"


def read_json(text: str) -> Any:
    """JSON whose nesting a machine can follow. Raises ValueError for any other."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def read_json_file(path: Path) -> Any:
    """The JSON in a file. Raises UserError for one that is not readable."""
    with reading(path):
        return read_json(path.read_text(encoding="utf-8"))


def nesting(line: bytes) -> int:
    """How deep JSON is nested, whether it is whole or not; most of it is known by the number of its brackets."""
    opened = line.count(b"[") + line.count(b"{")
    if opened <= DEEPEST:
        return opened
    signs = re.sub(rb'"(?:[^"\\]|\\.)*+"|[^][{}"]+', b"", line)
    return max(itertools.accumulate(1 if sign in b"[{" else -1 for sign in signs), default=0)


def read_json_lines(path: Path, fields: Fields = _ANY) -> list[dict[str, Any]]:
    """The records of a file; a last line that a kill cut short is left out.

    Raises UserError for another line that is no record, or has not the fields that it should.
    """
    return list(json_lines(path, fields))


def json_lines(path: Path, fields: Fields = _ANY) -> Iterator[dict[str, Any]]:
    """The same, one by one."""
    if not path.exists():
        return
    with reading(path), path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        for number, line in enumerate(file, 1):
            if line.endswith("\n") and line != "\n":
                yield _record(line[:-1], fields, f"{path} is damaged: line {number}")


def _record(line: str, fields: Fields, place: str) -> dict[str, Any]:
    try:
        record = read_json(line)
        wrong = fields.wrong(record) if isinstance(record, dict) else "is no record"
    except ValueError:
        record, wrong = {}, "is not readable as JSON"
    if wrong:
        raise UserError(f"{place} {wrong}; put back a copy, or remove the line")
    return cast(dict[str, Any], record)


def locked(path: Path) -> IO[str] | None:
    """The file, locked until it is closed or the last process that has it open ends; None if another has the lock.

    Raises UserError where the disk has no locks.
    """
    file = open_to_append(path)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError as error:
        file.close()
        raise UserError(
            f"output={path.parent}: its disk has no file locks ({error.strerror}), which keep two processes from "
            "writing there; choose another output= on a disk that has them"
        ) from None
    return file


def slug(text: str) -> str:
    """A file name that needs no quoting in a shell and is not hidden."""
    return re.sub(r"[^\w.+=-]+", "-", text).lstrip("-.").rstrip("-")
