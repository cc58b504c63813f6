"""Versions, commit and machine, on which a result depends besides its configuration; and what helps without memory."""

import hashlib
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, version
from pathlib import Path

import torch

from objectives import VERSION
from rlzoo.config import Config
from rlzoo.errors import Fault, is_out_of_memory, one_line

PACKAGES = (
    *("rlzoo-llm", "rlzoo"),  # what installs this package, and what it was called at first
    *("torch", "transformers", "accelerate"),
    *("datasets", "math-verify", "reasoning-gym", "numpy"),
)
_ROOT = Path(__file__).parents[2]
"""Where this project's two packages lie."""
_CODE = ("objectives", "rlzoo")


def environment(*packages: str) -> dict[str, str | None]:
    """Versions, those of further `packages` too, commit and machine, as plain data."""
    return {
        "python": platform.python_version(),
        **{name: _version(name) for name in (*PACKAGES, *packages)},
        "commit": code_state(_ROOT),
        "machine": platform.machine(),
        "processor": _processor(),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "threads": str(torch.get_num_threads()),
    }


def our_version() -> str:
    """Version and code of this project, such as `0.9.0 1a2b3c4d5e6f`."""
    return " ".join(filter(None, [VERSION, code_state(_ROOT)]))


@cache
def code_state(root: Path) -> str | None:
    """The commit of a checkout, with `+` and a digest of what is changed in it; of a wheel the digest of its RECORD.

    None where neither is there, as in a copy of the files.
    """
    if _git(root, "ls-files", "rlzoo/__init__.py"):  # a repository around an environment does not have it
        commit = _git(root, "rev-parse", "--short=12", "HEAD").strip()
        new = [root / name for name in _git(root, "ls-files", "--others", "--exclude-standard", *_CODE).splitlines()]
        edited = [_git(root, "diff", "HEAD", "--", *_CODE), *(path.read_text(errors="replace") for path in new)]
        return f"{commit}+{_short_digest(edited)}" if any(edited) else commit
    for name in PACKAGES[:2]:
        record = _record(name, root)
        if record:
            return f"wheel:{_short_digest([record])}"
    return None


def _record(name: str, root: Path) -> str:
    """The list of files of an installed distribution, with their checksums, if this package is of it."""
    try:
        installed = Distribution.from_name(name)
    except PackageNotFoundError:
        return ""
    is_here = Path(str(installed.locate_file("rlzoo"))).resolve() == (root / "rlzoo").resolve()
    return (installed.read_text("RECORD") or "") if is_here else ""


def _short_digest(texts: list[str]) -> str:
    return hashlib.blake2b("\0".join(texts).encode(errors="replace"), digest_size=4).hexdigest()


def _git(folder: Path, *words: str) -> str:
    """What git prints; empty if there is none, or no repository."""
    command = ["git", "-C", str(folder), *words]
    try:
        return subprocess.run(command, capture_output=True, errors="replace", timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


@contextmanager
def shortage_named(config: Config, learns: bool, where: str = "") -> Iterator[None]:
    """While a model is at work: a lack of memory is a Fault that names keys, and `where` they stand."""
    try:
        yield
    except Exception as error:
        if is_out_of_memory(error):
            raise Fault(f"{less_memory(config, learns)}{where} ({one_line(error)})") from None
        raise


def less_memory(config: Config, learns: bool = True) -> str:
    """By which keys half as much is held: of scoring and training, and of sampling."""
    tokens, rows = config.train.tokens_per_micro_batch, config.rollout.rows_per_batch
    scoring = f"train.tokens_per_micro_batch={tokens} holds all of them at once, {max(1, tokens // 2)} half of that; "
    sampling = f"in sampling rollout.rows_per_batch={rows} does, {max(1, rows // 2)} half"
    if not learns:
        scoring, sampling = "", f"rollout.rows_per_batch={rows} samples them at once, {max(1, rows // 2)} half of that"
    return f"out of memory: {scoring}{sampling}; rlzoo fit says what fits"
