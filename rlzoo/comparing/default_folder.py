"""The folder of a grid that is given none: named after its settings, so that grids never mix, and each is found."""

import json
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from rlzoo.config import load_config, words_of
from rlzoo.errors import UserError
from rlzoo.files import slug

GRID = "grid.json"
FOLDER = Path("runs/compare")
LONGEST_NAME = 60
_OF_NO_INFLUENCE = ("objective", "seed", "output", "resume", "checkpoint.", "log.", "evaluation.every", "task.grader_")
"""Keys that do not make a grid another one: a grid's own, and those that touch no result."""


def default_folder(words: Sequence[str]) -> Path:
    """The folder that holds a grid of these files and keys, or else a new one."""
    settings = _settings(words)
    own = _names(settings)
    for folder in (*own, FOLDER):  # all grids were once in that one
        if _held(folder) == settings:
            return folder
    return next((folder for folder in own if not folder.exists()), own[-1])


def _names(settings: Sequence[str]) -> list[Path]:
    """A readable one where that is possible, and one that is never another grid's."""
    text = "-".join([FOLDER.name, *settings])
    digest = blake2b(text.encode(), digest_size=4).hexdigest()
    readable = [FOLDER.with_name(text)] if slug(text) == text and len(text) <= LONGEST_NAME else []
    return [*readable, FOLDER.with_name(f"{slug(text)[:LONGEST_NAME]}-{digest}")]


def _settings(words: Sequence[str]) -> list[str]:
    """What differs from the defaults, however it was said."""
    found = words_of(load_config(words))
    return [word.replace('"', "") for word in found if not word.startswith(_OF_NO_INFLUENCE)]


def _held(folder: Path) -> list[str] | None:
    """The settings of the grid in a folder; None if there is none that can be read."""
    try:
        return _settings(json.loads((folder / GRID).read_text(encoding="utf-8"))["words"])
    except (OSError, ValueError, KeyError, TypeError, UserError):
        return None
