"""A run's configuration as others may see it: without the paths of this machine."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from rlzoo.config import Config, read_recorded
from rlzoo.experiment.run_folder import RunFolder

_LOCAL = re.compile(r"[/~.\\]|\w:\\")
"""How the path of a file on this machine begins."""


def published_config(run: RunFolder) -> Config:
    """The configuration of a run, with the last part alone of what is a path on this machine."""
    values = _without_paths({**asdict(read_recorded(run.config)), "output": run.path.name})
    return TypeAdapter(Config).validate_python(values)


def _without_paths(value: Any) -> Any:
    """A text is a path if it begins as one, or if such a file is here."""
    if isinstance(value, dict):
        return {key: _without_paths(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_paths(inner) for inner in value]
    if isinstance(value, str) and re.search(r"[/\\]", value) and (_LOCAL.match(value) or _exists(value)):
        return re.split(r"[/\\]", value.rstrip("/\\"))[-1]
    return value


def _exists(value: str) -> bool:
    try:
        return Path(value).exists()
    except (OSError, ValueError):  # a long text
        return False
