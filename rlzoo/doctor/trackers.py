"""The numbers in what trackers leave on a disk: tensorboard's event files, trackio's databases, wandb's offline runs.

All is data: nothing is imported that a file names, and a database has to answer within `SECONDS`.
"""

import logging
import sqlite3
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rlzoo.errors import UserError
from rlzoo.files import read_json

SECONDS = 30.0
STEPS = ("train/global_step", "_step")
"""What wandb and trackio call a step besides their own count, the best first."""
_BLOCK, _CHUNK = 1 << 15, struct.Struct("<IHB")
_WHOLE, _FIRST, _LAST = 1, 2, 4
_HEAD = 7
_logger = logging.getLogger(__name__)


def tracker_files(folder: Path) -> list[Path]:
    """The files of a tracker in a folder, by name; of one tracker alone."""
    return next((found for pattern in _READERS if (found := sorted(folder.glob(pattern)))), [])


def tracker_records(path: Path) -> Iterator[Mapping[str, Any]] | None:
    """The records of a tracker's file; None for any other file."""
    return next((read(path) for pattern, read in _READERS.items() if path.match(pattern)), None)


def _record(step: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a step under the names that a trainer gives them without a tracker."""
    steps = [values[name] for name in STEPS if name in values]
    return {**{name.removeprefix("train/"): value for name, value in values.items()}, "step": [*steps, step][0]}


def _tensorboard(path: Path) -> Iterator[Mapping[str, Any]]:
    _need("tensorboard")
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    for event in EventFileLoader(str(path)).Load():
        for value in event.summary.value:
            if len(value.tensor.float_val) == 1:
                yield _record(event.step, {value.tag: value.tensor.float_val[0]})


def _trackio(path: Path) -> Iterator[Mapping[str, Any]]:
    """The run of a project that was logged to last."""
    until = time.monotonic() + SECONDS
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
        database.set_progress_handler(lambda: time.monotonic() > until, 10_000)
        try:
            runs = database.execute(
                "select run_id, run_name, max(id) from metrics group by run_id order by 3"
            ).fetchall()
            if len(runs) > 1:
                _logger.warning("%s has %d runs; the last one, %s, is examined", path, len(runs), runs[-1][1])
            lines = "select step, metrics from metrics where run_id = ? order by id"
            for step, text in database.execute(lines, [runs[-1][0]] if runs else [""]):
                values = read_json(text if isinstance(text, str) else bytes(text).decode())
                if isinstance(values, dict):
                    yield _record(step, values)
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise UserError(f"{path} is no database of trackio that can be read: {error}") from None


def _wandb(path: Path) -> Iterator[Mapping[str, Any]]:
    _need("wandb")
    from wandb.proto import wandb_internal_pb2

    made: Any = wandb_internal_pb2
    for data in _logged(path.read_bytes()):
        record = made.Record()
        try:
            record.ParseFromString(data)
            items = {item.key or "/".join(item.nested_key): read_json(item.value_json) for item in record.history.item}
        except Exception:  # which protobuf says with a class of its own
            raise UserError(f"{path} is no run of wandb that can be read") from None
        if items:
            yield _record(record.history.step.num, items)


def _logged(data: bytes) -> Iterator[bytes]:
    """The records of a file in LevelDB's format: chunks that cross no block of 32 KiB, behind a head of wandb's own.

    A last record that is not whole yet is left out.
    """
    at, parts = _HEAD, list[bytes]()
    while at + _CHUNK.size <= len(data):
        left = _BLOCK - at % _BLOCK
        if left < _CHUNK.size:
            at += left
            continue
        _, size, kind = _CHUNK.unpack_from(data, at)
        chunk = data[at + _CHUNK.size : at + _CHUNK.size + size]
        if len(chunk) < size:
            return
        at += _CHUNK.size + size
        parts = [chunk] if kind in (_WHOLE, _FIRST) else [*parts, chunk]
        if kind in (_WHOLE, _LAST):
            yield b"".join(parts)
            parts = []


def _need(package: str) -> None:
    if find_spec(package) is None:
        raise UserError(f"files of {package} are read with its own library; type pip install {package}")


_READERS = {"events.out.tfevents.*": _tensorboard, "*.wandb": _wandb, "*.db": _trackio}
"""Name of a file -> its reader."""
