"""Tells a run that its user made here from one that somebody else wrote: a signature by a key of the user's own.

It is over the run's config.yaml, the working directory, and the files of code from outside. Such a run needs no
`trust=` as long as all of these are unchanged.
"""

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

SIGNED = "made_here.json"
"""Lies beside the config.yaml of a run."""


def sign(config: Path, files: Iterable[Path]) -> None:
    """Records that this user made the run with this config.yaml and these files; not where no key can be kept."""
    paths = sorted(str(path.resolve()) for path in files)
    try:
        written = {"files": paths, "signature": _signature(config, paths, _key())}
        (config.parent / SIGNED).write_text(json.dumps(written, indent=2), encoding="utf-8")
    except OSError:
        return


def is_own(config: Path) -> bool:
    """Whether this user made the run of a config.yaml from here, and it and its code are unchanged."""
    try:
        written = json.loads((config.parent / SIGNED).read_text(encoding="utf-8"))
        return hmac.compare_digest(written["signature"], _signature(config, written["files"], _key()))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _signature(config: Path, paths: list[str], key: bytes) -> str:
    digests = [hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in (str(config), *paths)]
    return hmac.new(key, json.dumps([os.getcwd(), paths, digests]).encode(), hashlib.sha256).hexdigest()


def _key() -> bytes:
    """The user's own, made where there is none. Raises OSError."""
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "rlzoo"
    file = folder / "key"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        made = folder / f"key.{os.getpid()}"
        made.touch(mode=0o600)
        made.write_bytes(secrets.token_bytes(32))
        made.replace(file)
    return file.read_bytes()
