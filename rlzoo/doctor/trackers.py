"""The numbers in what trackers leave on a disk: tensorboard's event files, trackio's databases, wandb's offline runs.

All is data: nothing that a file names is imported; a database answers within `SECONDS`, in `LONGEST_VALUE` bytes each.
"""

import logging
import sqlite3
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from rlzoo.errors import UserError, one_line
from rlzoo.files import read_json

SECONDS, LONGEST_VALUE = 30.0, 1 << 24
STEPS = ("train/global_step", "_step")
"""What wandb and trackio call a step besides their own count, the best first."""
_EVENTS = "events.out.tfevents.*"
_HEAD, _BLOCK, _CHUNK = 7, 1 << 15, struct.Struct("<IHB")
_WHOLE, _FIRST, _LAST = 1, 2, 4
_logger = logging.getLogger(__name__)


def tracker_files(folder: Path) -> list[Path]:
    """The files of a tracker in a folder, by name; of one tracker alone. Raises UserError for several files of trackio
    or wandb, which are different runs.
    """
    files = next((found for pattern in _READERS if (found := sorted(filter(Path.is_file, folder.glob(pattern))))), [])
    if len(files) > 1 and not files[0].match(_EVENTS):
        names = one_line(", ".join(file.name for file in files))
        raise UserError(f"{folder} has files of several runs: {names}; give one of these files")
    return files


def tracker_records(path: Path) -> Iterator[Mapping[str, Any]] | None:
    """The records of a tracker's file; None for any other file. Raises UserError for what cannot be read."""
    return next((_checked(path, read(path)) for pattern, read in _READERS.items() if path.match(pattern)), None)


def _checked(path: Path, records: Iterator[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The records, unless a pipe would keep their reader waiting."""
    if Path(f"{path}-journal").is_fifo():
        raise UserError(f"the journal of {path} is no file; give what a tracker wrote")
    try:
        yield from records
    except ModuleNotFoundError as error:
        raise UserError(f"{path} is read with the tracker's own library; type pip install {error.name}") from None
    except Exception as error:  # protobuf has a class of its own
        raise UserError(f"{path} cannot be read: {one_line(error)}") from None


def _record(step: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a step under the names that a trainer gives them without a tracker."""
    steps = [values[name] for name in STEPS if name in values]
    return {**{name.removeprefix("train/"): value for name, value in values.items()}, "step": [*steps, step][0]}


def _tensorboard(path: Path) -> Iterator[Mapping[str, Any]]:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    for event in EventFileLoader(str(path)).Load():
        for value in event.summary.value:
            if len(value.tensor.float_val) == 1:
                yield _record(event.step, {value.tag: value.tensor.float_val[0]})


def _trackio(path: Path) -> Iterator[Mapping[str, Any]]:
    """The run of a project that was logged to last."""
    until = time.monotonic() + SECONDS
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        database.set_progress_handler(lambda: time.monotonic() > until, 100)
        columns = database.execute("pragma main.table_xinfo(metrics)").fetchall()
        if not any(key for *_, key, _ in columns) or any(computed for *_, computed in columns):
            raise ValueError("it has no table of metrics as trackio writes it")
        runs = database.execute("select run_id, run_name, max(id) from metrics group by run_id order by 3").fetchall()
        if len(runs) > 1:
            _logger.warning(
                "%s has %d runs; the last one, %s, is examined", path, len(runs), one_line(str(runs[-1][1]))
            )
        lines = "select step, metrics from metrics where run_id is ? order by id"
        for step, text in database.execute(lines, [runs[-1][0]] if runs else [""]):
            values = read_json(text if isinstance(text, str) else bytes.decode(text))
            if isinstance(values, dict):
                yield _record(step, values)


def _wandb(path: Path) -> Iterator[Mapping[str, Any]]:
    from wandb.proto import wandb_internal_pb2

    made: Any = wandb_internal_pb2
    for data in _logged(path.read_bytes()):
        record = made.Record.FromString(data)
        items = {item.key or "/".join(item.nested_key): read_json(item.value_json) for item in record.history.item}
        if items:
            yield _record(record.history.step.num, items)


def _logged(data: bytes) -> Iterator[bytes]:
    """The whole records of a file in LevelDB's format: chunks within blocks of 32 KiB, behind a head of wandb's."""
    at, parts = _HEAD, list[bytes]()
    while at + _CHUNK.size <= len(data):
        if (left := _BLOCK - at % _BLOCK) < _CHUNK.size:
            at += left
            continue
        _, size, kind = _CHUNK.unpack_from(data, at)
        chunk = data[at + _CHUNK.size : at + _CHUNK.size + size]
        if not _WHOLE <= kind <= _LAST:
            raise ValueError(f"it is no run of wandb, or damaged at byte {at}")
        if len(chunk) < size:
            return
        at += _CHUNK.size + size
        parts = [] if kind in (_WHOLE, _FIRST) else parts
        parts.append(chunk)
        if kind in (_WHOLE, _LAST):
            yield b"".join(parts)
            parts = []


_READERS = {_EVENTS: _tensorboard, "*.wandb": _wandb, "*.db": _trackio}
"""Name of a file -> its reader."""
