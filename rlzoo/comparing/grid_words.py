"""What the words of `rlzoo compare` ask for, read before torch is imported: rows, settings, and the grid's folder."""

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b
from pathlib import Path

from objectives import parse
from rlzoo.config import Config, load_config
from rlzoo.config.command_keys import GridConfig, TrustConfig
from rlzoo.config.reading import own_words, resolve
from rlzoo.config.recorded import is_of_a_run
from rlzoo.config.schema import GRID_IDENTITY, MACHINE, Decides, keys
from rlzoo.config.words import decided_by, split_words, words_of
from rlzoo.errors import UserError
from rlzoo.experiment.check import check_words
from rlzoo.files import read_json, slug
from rlzoo.statistics.interim_analyses import FIRST

AUTO = "seeds=auto"
SCHEDULE = "train.schedule=linear"
"""The schedule of a comparison that names none: with a rate that ends near 0, what is measured after the last step is
not that step's luck (successive evaluations differ by 0.35 points, at a constant rate by 1.5)."""
UPDATES = "train.minibatches_per_step"
"""What each grid says of itself; one that does not was made when a step had one update unless told otherwise."""
UP_TO = 10
"""Seeds that an objective may get where the number is not given."""
GRID = "grid.json"
FOLDER = Path("runs/compare")
LONGEST_NAME, LONGEST_STEM = 60, 20
OF_THE_GRID = (
    *("objective", "seed", "output", "resume"),
    *("task.name", "task.split", "task.held_out", "task.held_out_split", "task.held_out_rows", "task.held_out_seed"),
    *("task.instruction", "task.system_prompt", "task.columns"),
)
"""Keys that a row cannot have of its own, nor keys of `evaluation`: all rows answer the same problems."""
_LIST = re.compile(r"([\w.]+)\s*=\s*\[([^\[\]]*)\]")


@dataclass(frozen=True)
class RowWords:
    """A row as it was asked for: an objective, and settings that this row alone has."""

    expression: str
    settings: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str) -> "RowWords":
        """A row from `'grpo train.learning_rate=1e-4'`."""
        expression, *settings = _outside_brackets(text)
        while settings and not is_setting(settings[0]):
            expression += f" {settings.pop(0)}"
        return cls(expression, tuple(settings))

    def __str__(self) -> str:
        return " ".join([self.expression, *self.settings])


@dataclass(frozen=True)
class GridWords:
    """What the words say of a grid."""

    keys: GridConfig
    up_to: int
    """How many seeds a row may get where they decide something; 0 if they are given."""
    rows: list[RowWords]
    settings: tuple[str, ...]
    """Files and keys that all its runs share."""
    trust: tuple[str, ...] = ()
    """Files and folders whose code may run."""


def is_setting(word: str) -> bool:
    """Whether a word is a file or key=value; in an expression, any `=` stands behind a bracket."""
    return word.endswith((".yaml", ".yml")) or re.match(r"[\w.]+=", word) is not None


def read_grid_words(words: Sequence[str], ablated: Sequence[str] = ()) -> GridWords:
    """Reads the words; `ablated` are rows as well. Raises UserError or ObjectiveError for what no grid could use."""
    up_to = max((_up_to(word) for word in words if word.startswith(AUTO)), default=0)
    trusted, others = own_words([word for word in words if not word.startswith(AUTO)], TrustConfig)
    refuse_lists([*others, *ablated])
    keys, settings = split_words("compare", [word for word in others if is_setting(word)])
    if up_to:
        keys.seeds = list(range(FIRST))
    if not keys.seeds or len(set(keys.seeds)) < len(keys.seeds):
        raise UserError(f"seeds={keys.seeds} must be one or more different numbers")
    keys.check()
    if "name=" in others:
        raise UserError("name= is empty; give it a value, or leave it out")
    if any(is_of_a_run(Path(word)) for word in settings):
        settings += [f"trust={path}" for path in trusted.trust]
    goes_on = ((keys.folder or default_folder(settings)) / GRID).exists()
    check_words(replace(load_config(settings), resume=goes_on))
    rows = [RowWords.read(word) for word in others if not is_setting(word)]
    for row in (*rows, *map(RowWords.read, ablated)):
        _check_row(row, settings, goes_on)
    return GridWords(keys, up_to, rows, tuple(settings), tuple(trusted.trust))


def _check_row(row: RowWords, settings: Sequence[str], goes_on: bool) -> None:
    parse(row.expression)
    for word in row.settings:
        key = word.partition("=")[0]
        is_shared = any(f"{key}.".startswith(f"{name}.") for name in OF_THE_GRID)
        if is_shared or word.endswith((".yaml", ".yml")) or decided_by(key) is Decides.EVALUATION:
            raise UserError(f"{word} in {str(row)!r}: a row cannot have it of its own; give it to the whole grid")
    if row.settings:
        check_words(replace(load_config([*settings, *row.settings]), resume=goes_on))


def refuse_lists(words: Sequence[str]) -> None:
    """Raises UserError for a list where one value belongs: earlier versions made a row of each value."""
    of_one_value = {key.name for key in keys(Config) if not isinstance(key.default, (list, tuple, dict))}
    of_several = {key.name for key in keys(Config)} - of_one_value
    for word in words:
        for match in _LIST.finditer(word):
            is_inside = match[0] != word
            if match[1] in of_several or not (is_inside or match[1] in of_one_value):
                continue
            first = next((other for other in words if not is_setting(other) and " " not in other), "grpo")
            row = word if is_inside else f"{first} {word}"
            each = (row.replace(match[0], f"{match[1]}={value.strip()}") for value in match[2].split(","))
            rows = " ".join(f"'{text}'" for text in each)
            raise UserError(f"{word}: a row has one value of {match[1]}; name a row for each: {rows}")


def meant(settings: Sequence[str]) -> tuple[tuple[str, float | str], ...]:
    """What the settings of a row are, however numbers are written: 1e-5 is 0.00001."""
    pairs = [(name, value) for name, _, value in (word.partition("=") for word in settings)]
    return tuple((name, value if name in _keys_of_text() else _number(value)) for name, value in pairs)


@cache
def _keys_of_text() -> frozenset[str]:
    return frozenset(key.name for key in keys(Config) if isinstance(key.default, str))


def _number(value: str) -> float | str:
    try:
        return float(value)
    except ValueError:
        return value


def _outside_brackets(text: str) -> list[str]:
    """The words of a text, cut at spaces that no bracket encloses."""
    pieces, depth = [""], 0
    for letter in text.strip():
        depth += (letter in "([{") - (letter in ")]}")
        if letter.isspace() and depth <= 0:
            pieces.append("")
        else:
            pieces[-1] += letter
    return [piece for piece in pieces if piece] or [""]


def with_schedule(settings: Sequence[str]) -> tuple[str, ...]:
    """The settings of a comparison, with its own schedule and the updates of a step where they name none."""
    resolved = resolve(settings)
    schedule = (SCHEDULE,) if resolved.origins["train.schedule"] == "default" else ()
    is_named = names_updates(settings)
    updates = () if is_named else (f"{UPDATES}={resolved.config.train.minibatches_per_step}",)
    return (*settings, *schedule, *updates)


def names_updates(settings: Sequence[str]) -> bool:
    """Whether a word or a file of a comparison says how many updates a step has."""
    return resolve(settings).origins[UPDATES] in ("command line", *settings)


def as_recorded(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a grid that is read, with the one update a step that earlier versions meant by none."""
    return (*words, *(() if names_updates(words) else (f"{UPDATES}=1",)))


def _up_to(word: str) -> int:
    """The number in `seeds=auto(up_to=10)`."""
    written = re.fullmatch(r"seeds=auto(\(up_to=(\d+)\))?", word.replace(" ", ""))
    if written is None:
        raise UserError(f"{word!r} is written seeds=auto or seeds=auto(up_to={UP_TO})")
    up_to = int(written[2] or UP_TO)
    if up_to <= FIRST:
        raise UserError(f"{word!r}: up_to must be more than the {FIRST} seeds that every objective starts with")
    return up_to


# ---- the folder of a grid that names none ----------------------------------------------------------------------------


def default_folder(words: Sequence[str]) -> Path:
    """The folder that holds a grid of these files and keys, or else a new one.

    It is named after the settings, so that grids never mix, and each is found again.
    """
    settings = _settings(with_schedule(words))
    names = _names([setting for setting in settings if setting != SCHEDULE])
    held = [folder for folder in names if _held(folder) == settings]
    return next(iter(held), next((folder for folder in names if not folder.exists()), names[-1]))


def _names(settings: Sequence[str]) -> list[Path]:
    """A readable name where that is possible, and one that is never another grid's."""
    text = "-".join([FOLDER.name, *settings])
    digest = blake2b(text.encode(), digest_size=4).hexdigest()
    readable = [FOLDER.with_name(text)] if slug(text) == text and len(text) <= LONGEST_NAME else []
    given = dict(word.partition("=")[::2] for word in settings)
    subject = (Path(given.get(key, "")).stem[:LONGEST_STEM] for key in ("model.name", "task.name"))
    return [*readable, FOLDER.with_name(slug("-".join([FOLDER.name, *filter(None, subject), digest])))]


def settings_of(config: Config, what: Set[Decides] = GRID_IDENTITY | {MACHINE}) -> list[str]:
    """The words of a comparison with the settings of a run that differ from the defaults, and its schedule."""
    words = words_of(config, what)
    is_said = any(word.startswith("train.schedule=") for word in words)
    return words if is_said else [*words, f"train.schedule={config.train.schedule}"]


def _settings(words: Sequence[str]) -> list[str]:
    """What makes another grid, however it was said."""
    return [word.replace('"', "") for word in settings_of(load_config(words), GRID_IDENTITY)]


def _held(folder: Path) -> list[str] | None:
    """The settings of the grid in a folder; None if there is none that can be read."""
    try:
        return _settings(as_recorded(read_json((folder / GRID).read_text(encoding="utf-8"))["words"]))
    except (OSError, ValueError, KeyError, TypeError, UserError):
        return None
