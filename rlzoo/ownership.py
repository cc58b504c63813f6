"""Recognises runs that this user made on this machine, by a signature with a key of the user.

The signature covers config.yaml, the working directory, and the files of code from outside. Such a run needs no
`trust=` while all of these are unchanged.
"""

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

SIGNED = "made_here.json"
"""Lies beside the config.yaml of a run."""
_KEY_BYTES = 32


def sign(config: Path, files: Iterable[Path]) -> None:
    """Records that this user made the run with this config.yaml and these files; not where no key can be kept."""
    try:
        digests = {str(path): _digest(path) for path in sorted(file.resolve() for file in files)}
        written = {"files": digests, "signature": _signature(config, digests, _key())}
        (config.parent / SIGNED).write_text(json.dumps(written, indent=2), encoding="utf-8")
    except (OSError, RuntimeError, ValueError):  # a user without a home, a key that was cut
        return


def is_own(config: Path) -> bool:
    """Whether this user made the run of a config.yaml from here, and it and its code are unchanged.

    Files that a record names are read only after its signature has been found to be the user's.
    """
    signed = config.parent / SIGNED
    if not (signed.is_file() and config.is_file()):  # a pipe would be waited for
        return False
    try:
        written = json.loads(signed.read_text(encoding="utf-8"))
        files = written["files"]
        if not hmac.compare_digest(written["signature"], _signature(config, files, _key())):
            return False
        return all(_digest(Path(path)) == digest for path, digest in files.items())
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):
        return False


def _signature(config: Path, digests: Mapping[str, str], key: bytes) -> str:
    signed = json.dumps([os.getcwd(), _digest(config), digests])
    return hmac.new(key, signed.encode(), hashlib.sha256).hexdigest()


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _key() -> bytes:
    """The user's own, made where there is none; of several processes that make one the first counts.

    Raises OSError where none can be kept, RuntimeError for a user without a home, ValueError for one that was cut.
    """
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "rlzoo"
    file = folder / "key"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        made = folder / f"key.{os.getpid()}"
        made.touch(mode=0o600)
        made.write_bytes(secrets.token_bytes(_KEY_BYTES))
        with suppress(FileExistsError):
            os.link(made, file)
        made.unlink()
    key = file.read_bytes()
    if len(key) != _KEY_BYTES:
        raise ValueError(f"{file} is no key; delete it")
    return key
