"""The list of a saved model's files, each with its bytes and its checksum, by which damage is seen."""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any

from rlzoo.errors import one_line
from rlzoo.files import read_json, write_json

TRAINING = "training"
"""The folder of what training goes on from, beside the model's own files."""
MANIFEST = f"{TRAINING}/manifest.json"
"""The step, and of every file its bytes and its checksum; older versions wrote none."""


def write_manifest(folder: Path, step: int) -> None:
    """Lists the files of a model folder, which is complete but for this."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    listed = {str(path.relative_to(folder)): _fingerprint(path) for path in files}
    write_json(folder / MANIFEST, {"step": step, "files": listed})


def has_manifest(folder: Path) -> bool:
    """Whether somebody can know that its files are as they were saved."""
    return (folder / MANIFEST).is_file()


def damage(folder: Path, step: int | None = None, needed: frozenset[str] = frozenset()) -> str:
    """What of the listed files is not as it was saved, in words; empty if all is, or nothing is listed.

    With a step the list has to be of that step, to have what is `needed`, and to hold for what training goes on from;
    otherwise it is asked about the model alone.
    """
    if not has_manifest(folder):
        return ""
    try:
        manifest = read_json((folder / MANIFEST).read_text(encoding="utf-8"))
        files: Mapping[str, Any] = dict(manifest["files"])
        if (step is not None and manifest["step"] != step) or not needed <= files.keys():
            return f"{MANIFEST} is that of another"
        for name, saved in files.items():
            parts = PurePath(name).parts
            if PurePath(name).is_absolute() or ".." in parts:
                return f"{MANIFEST} names what lies elsewhere"
            if step is None and parts[:1] == (TRAINING,):
                continue
            if not (folder / name).is_file():
                return f"it has no {name}"
            if _fingerprint(folder / name) != saved:
                return f"{name} is not what was saved"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{MANIFEST} is not readable: {one_line(error)}"
    return ""


def _fingerprint(path: Path) -> dict[str, int | str]:
    return {"bytes": path.stat().st_size, "blake2b": checksum(path)}


def checksum(path: Path) -> str:
    """Of a whole file."""
    status = path.stat()
    return _checksum(path.absolute(), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=4096)
def _checksum(path: Path, size: int, changed_at: int) -> str:
    """Of a file as it is since then, read once; a command asks for it several times."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()
