"""What an evaluation keeps while it goes on, so that a killed one goes on where it stopped, and `results.json`.

Responses are kept batch by batch, each batch a file that is whole or not there. As every draw depends on seed, problem
and sample, and as batches are always the same, an evaluation that was killed ends with the file of one that was not.
"""

import fcntl
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlzoo.config import TaskConfig, flat
from rlzoo.errors import UserError
from rlzoo.experiment.identity import changed_sources
from rlzoo.files import locked, open_to_append, read_json_file, read_json_lines, write_json, write_json_lines
from rlzoo.records import COUNT, Fields, Kind, reading

RESULTS = "results.json"
"""Of every file of responses in a folder: what decided it, its figures, and what it was made with."""

_PART = Fields({"number": COUNT, "records": Kind("a list", lambda value: isinstance(value, list))})

Record = dict[str, Any]
Entry = dict[str, Any]


@dataclass(frozen=True)
class KeptBatches:
    """The batches that are done of the evaluation whose responses will be in the file `path`."""

    path: Path

    @property
    def folder(self) -> Path:
        """Where they lie; gone when the evaluation is finished."""
        return self.path.with_suffix(".parts")

    def records(self) -> dict[int, list[Record]]:
        """The responses to each problem that is done, by its number, as far as this process sees them."""
        records: dict[int, list[Record]] = {}
        for part in sorted(self.folder.glob("*.jsonl")):
            for line in read_json_lines(part, _PART):
                records[line["number"]] = line["records"]
        return records

    def keep(self, records: Mapping[int, list[Record]]) -> None:
        """Writes a batch, the responses to each of its problems."""
        lines = [{"number": number, "records": responses} for number, responses in records.items()]
        write_json_lines(self.folder / f"{min(records):06d}.jsonl", lines)

    @contextmanager
    def claimed(self, settings: Mapping[str, Any]) -> Iterator[None]:
        """While its responses are sampled. Raises UserError if another process does so, or did with other settings."""
        known = self.folder / "settings.json"
        if known.exists():
            check_same_settings(self.path, read_json_file(known), settings)
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = locked(self.folder / ".lock")
        if lock is None:
            raise UserError(f"{self.path} is being written by another process; wait for it, or stop it")
        with lock:
            write_json(known, settings)
            yield

    def forget(self) -> None:
        """They are in the file now."""
        shutil.rmtree(self.folder, ignore_errors=True)


def check_same_settings(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuses to go on with, or to take for done, what other settings decided. Raises UserError naming one."""
    with reading(path.parent / RESULTS):
        change = changed_sources(now.get("code", {}), before.get("code", {}))
        old, new = without_code(before), without_code(json.loads(json.dumps(now)))
    if change:
        raise UserError(f"{change} has changed since {path} was made; another output= keeps both")
    usual = flat({"task": asdict(TaskConfig())})  # what a version without the key did
    old = {**{key: usual.get(key) for key in new if key.startswith("task.")}, **old}
    for key in dict.fromkeys([*new, *old]):
        if old.get(key) != new.get(key):
            raise UserError(
                f"{path} was made with {key}={old.get(key)}, and now it is {new.get(key)}; another output= keeps both"
            )


def without_code(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with dotted keys, without the digests of code. Two evaluations may record different ones."""
    return flat({key: value for key, value in settings.items() if key not in ("code", "source_files")})


def read_results(folder: Path) -> dict[str, Entry]:
    """The entries of a folder's `results.json` by file name without suffix. Raises UserError if it is not readable."""
    path = folder / RESULTS
    if not path.exists():
        return {}
    with reading(path):
        return {name: dict(entry) for name, entry in read_json_file(path).items()}


def record_result(path: Path, entry: Entry) -> None:
    """Puts a file's entry into the `results.json` beside it; other processes may do the same with other files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_to_append(path.parent / f".{RESULTS}.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        write_json(path.parent / RESULTS, {**read_results(path.parent), path.stem: entry})


def is_finished(path: Path, settings: Mapping[str, Any]) -> bool:
    """Whether the responses are all there. Raises UserError if others decided them, or it is not known which."""
    entry = read_results(path.parent).get(path.stem)
    if not path.exists() or (entry is None and KeptBatches(path).folder.exists()):
        return False
    if entry is None:
        raise UserError(f"{path} exists, and {RESULTS} does not say what decided it; choose another output=")
    with reading(path.parent / RESULTS):
        before = dict(entry["settings"])
    check_same_settings(path, before, settings)
    return True


def in_order(records: Mapping[int, Sequence[Record]]) -> list[Record]:
    """All responses, by problem and sample."""
    return [record for number in sorted(records) for record in records[number]]
