"""What a result depends on besides its configuration."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

PACKAGES = (
    *("rlzoo-llm", "rlzoo"),  # what installs this package, and what it was called at first
    *("torch", "transformers", "accelerate"),
    *("datasets", "math-verify", "reasoning-gym", "numpy"),
)


def environment(*packages: str) -> dict[str, str | None]:
    """Versions, those of further `packages` too, commit and machine, as plain data."""
    return {
        "python": platform.python_version(),
        **{name: _version(name) for name in (*PACKAGES, *packages)},
        "commit": _commit(),
        "machine": platform.machine(),
        "processor": _processor(),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "threads": str(torch.get_num_threads()),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of the checkout this package runs from, with a mark if it has local changes."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor()
    )
