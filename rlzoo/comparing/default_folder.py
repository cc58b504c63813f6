"""The folder of a grid that is given none: named after its settings, so that grids never mix, and each is found."""

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from rlzoo.comparing.grid_words import SCHEDULE, with_schedule
from rlzoo.config import Config, load_config, words_of
from rlzoo.config.schema import GRID_IDENTITY
from rlzoo.errors import UserError
from rlzoo.files import read_json, slug

GRID = "grid.json"
FOLDER = Path("runs/compare")
LONGEST_NAME = 60


def default_folder(words: Sequence[str]) -> Path:
    """The folder that holds a grid of these files and keys, or else a new one.

    Where they say no schedule, a grid of an earlier version, whose rate is constant, is one of them.
    """
    settings = _settings(with_schedule(words))
    named = _names(_beside_the_usual(settings))
    earlier = sorted(FOLDER.parent.glob(f"{FOLDER.name}*"))  # some are named after keys that decide no result
    for wanted in (settings, _settings(words)):
        for folder in (*named, *earlier):
            if _held(folder) == wanted:
                return folder
    return next((folder for folder in named if not folder.exists()), named[-1])


def schedule_held(folder: Path) -> str | None:
    """`train.schedule=...` of the grid in a folder; None if there is none that can be read."""
    settings = _held(folder)
    if settings is None:
        return None
    told = [setting for setting in settings if setting.startswith("train.schedule=")]
    return told[0] if told else f"train.schedule={Config().train.schedule}"


def _names(settings: Sequence[str]) -> list[Path]:
    """A readable one where that is possible, and one that is never another grid's."""
    text = "-".join([FOLDER.name, *settings])
    digest = blake2b(text.encode(), digest_size=4).hexdigest()
    readable = [FOLDER.with_name(text)] if slug(text) == text and len(text) <= LONGEST_NAME else []
    return [*readable, FOLDER.with_name("-".join([FOLDER.name, *_shown(settings), digest]))]


def _beside_the_usual(settings: Sequence[str]) -> list[str]:
    """What a name tells: the settings that a comparison does not have by itself."""
    if SCHEDULE in settings:
        return [setting for setting in settings if setting != SCHEDULE]
    is_told = any(setting.startswith("train.schedule=") for setting in settings)
    return [*settings] if is_told else [*settings, f"train.schedule={Config().train.schedule}"]


def _shown(settings: Sequence[str]) -> list[str]:
    """As many whole settings as a name has room for, and how many more there are; grid.json has them all."""
    shown = [slug(setting) for setting in settings]
    while len("-".join([FOLDER.name, *shown])) > LONGEST_NAME:
        shown.pop()
    left = len(settings) - len(shown)
    return [*shown, f"and-{left}-more"] if left else shown


def _settings(words: Sequence[str]) -> list[str]:
    """What differs from the defaults and makes another grid, however it was said."""
    return [word.replace('"', "") for word in words_of(load_config(words), GRID_IDENTITY)]


def _held(folder: Path) -> list[str] | None:
    """The settings of the grid in a folder; None if there is none that can be read."""
    try:
        return _settings(read_json((folder / GRID).read_text(encoding="utf-8"))["words"])
    except (OSError, ValueError, KeyError, TypeError, UserError):
        return None
