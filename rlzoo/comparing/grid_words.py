"""The words of a grid's command line, told apart before torch is imported."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from objectives import parse
from rlzoo.comparing.sweep import split_settings, variants
from rlzoo.config import GridConfig, TrustConfig, load_config, own_words, resolve, split_words
from rlzoo.config.recorded import is_of_a_run
from rlzoo.errors import UserError
from rlzoo.experiment.check import check_words
from rlzoo.statistics.sequential import FIRST

AUTO = "seeds=auto"
SCHEDULE = "train.schedule=linear"
"""The schedule of a comparison that is told none: with a rate that ends near 0, what is measured after the last step is
not that step's luck (successive evaluations differ by 0.35 points, at a constant rate by 1.5)."""
UP_TO = 10
"""Seeds that an objective may get where the number is not given."""


@dataclass(frozen=True)
class GridWords:
    """What the words say of a grid."""

    keys: GridConfig
    up_to: int
    """How many seeds a row may get where they decide something; 0 if they are given."""
    expressions: list[str]
    settings: tuple[str, ...]
    """Files and keys that all its runs share."""
    swept: tuple[str, ...]
    """Keys with a list of values, of which every objective is trained with each."""
    trust: tuple[str, ...] = ()
    """Files and folders whose code may run."""


def is_setting(word: str) -> bool:
    """Whether a word is a file or key=value; in an expression, any `=` stands behind a bracket."""
    return word.endswith((".yaml", ".yml")) or re.match(r"[\w.]+=", word) is not None


def with_schedule(settings: Sequence[str]) -> tuple[str, ...]:
    """The settings of a comparison, with its own schedule where they say none; what is swept comes later and wins."""
    is_given = resolve(settings).origins["train.schedule"] != "default"
    return tuple(settings) if is_given else (*settings, SCHEDULE)


def _up_to(word: str) -> int:
    """Of `seeds=auto(up_to=10)`."""
    written = re.fullmatch(r"seeds=auto(\(up_to=(\d+)\))?", word.replace(" ", ""))
    if written is None:
        raise UserError(f"{word!r} is written seeds=auto or seeds=auto(up_to={UP_TO})")
    up_to = int(written[2] or UP_TO)
    if up_to <= FIRST:
        raise UserError(f"{word!r}: up_to must be more than the {FIRST} seeds that every objective starts with")
    return up_to


def _whole(pieces: Sequence[str]) -> list[str]:
    """Expressions that were cut at the commas inside their brackets."""
    whole: list[str] = []
    for piece in pieces:
        is_open = bool(whole) and whole[-1].count("(") > whole[-1].count(")")
        whole = [*whole[:-1], f"{whole[-1]},{piece}"] if is_open else [*whole, piece]
    return whole


def read_grid_words(words: Sequence[str]) -> GridWords:
    """Tells words apart. Raises UserError or ObjectiveError for those that no grid could use."""
    up_to = max((_up_to(word) for word in words if word.startswith(AUTO)), default=0)
    trusted, others = own_words([word for word in words if not word.startswith(AUTO)], TrustConfig)
    keys, others = split_words("compare", others)
    if up_to:
        keys.seeds = list(range(FIRST))
    if not keys.seeds or len(set(keys.seeds)) < len(keys.seeds):
        raise UserError(f"seeds={keys.seeds} must be one or more different numbers")
    keys.leave_out = _whole(keys.leave_out)
    keys.check()
    settings, swept = split_settings([word for word in others if is_setting(word)])
    if any(is_of_a_run(Path(word)) for word in settings):
        settings = (*settings, *(f"trust={path}" for path in trusted.trust))
    for _, sweep in variants("", swept):
        check_words(load_config([*settings, *sweep.words]))
    expressions = [word for word in others if not is_setting(word)]
    for expression in expressions:
        for text, _ in variants(expression, ()):
            parse(text)
    return GridWords(keys, up_to, expressions, settings, swept, tuple(trusted.trust))
