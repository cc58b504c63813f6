"""Recognises runs that this user made on this machine, by what the user's own folder of state keeps of them.

That covers config.yaml, the working directory, and the files of code from outside. Such a run needs no `trust=` while
all of these are unchanged.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def keep_as_own(config: Path, files: Iterable[Path]) -> None:
    """Keeps that this user made the run with this config.yaml and these files; not where nothing can be kept."""
    with suppress(OSError, RuntimeError):  # a user without a home
        kept = _kept(config)
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps({str(file.resolve()): _digest(file.read_bytes()) for file in files}))
        partial.replace(kept)


def is_own(config: Path) -> bool:
    """Whether this user made the run of a config.yaml from here, and it and its code are unchanged."""
    with suppress(OSError, RuntimeError, ValueError):
        if config.is_file():  # a pipe would be waited for
            files = json.loads(_kept(config).read_text())
            return all(_digest(Path(file).read_bytes()) == digest for file, digest in files.items())
    return False


def _kept(config: Path) -> Path:
    """The file in the folder of state for this content of config.yaml and this working directory."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return state / "rlzoo" / "made_here" / f"{_digest(os.getcwdb() + config.read_bytes())}.json"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
