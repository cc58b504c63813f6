"""Names and defaults of another library's settings, as its installed package has them.

`python -m tests.peers.installed NAME` writes them into `NAME.json`, with version and date, in an environment that has
the package; tests there compare the two.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Installed:
    """What a version of a package has."""

    version: str
    defaults: Mapping[str, Any]
    """Setting, by its dotted name -> its default."""
    programs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Module that is run -> the defaults that its own configuration has instead."""
    date: str = ""


def committed(name: str) -> Installed:
    """What `NAME.json` says."""
    return Installed(**json.loads(Path(__file__).with_name(f"{name}.json").read_text(encoding="utf-8")))


def flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by dotted name."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
