"""The words of a grid's command line, told apart before torch is imported."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rlzoo.config import GridConfig, load_config, own_words
from rlzoo.config.zoo_names import check_names
from rlzoo.errors import UserError
from rlzoo.experiment.first_check import check_words


@dataclass(frozen=True)
class GridWords:
    """What the words say of a grid."""

    own: GridConfig
    expressions: list[str]
    settings: tuple[str, ...]
    """Files and keys that all its runs share."""


def is_setting(word: str) -> bool:
    """Whether a word is a file or key=value; in an expression, any `=` stands behind a bracket."""
    return word.endswith((".yaml", ".yml")) or re.match(r"[\w.]+=", word) is not None


def read_grid_words(words: Sequence[str]) -> GridWords:
    """Tells words apart. Raises UserError for those that no grid could use; what expressions mean is not looked at."""
    for word in words:
        if word.partition("=")[0] in ("objective", "seed", "resume"):
            raise UserError(f"{word!r} has no effect on a grid; objectives are words of their own, seeds are seeds=0,1")
    own, others = own_words(words, GridConfig)
    if not own.seeds or len(set(own.seeds)) < len(own.seeds) or min(own.seeds) < 0:
        raise UserError(f"seeds={own.seeds} must be one or more different numbers, none below 0")
    if own.jobs < 1:
        raise UserError(f"jobs={own.jobs} must be at least 1")
    settings = tuple(word for word in others if is_setting(word))
    check_words(load_config(settings))
    expressions = [word for word in others if not is_setting(word)]
    for expression in expressions:
        check_names(expression)
    return GridWords(own, expressions, settings)
