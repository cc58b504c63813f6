"""The words of a grid's command line, told apart before torch is imported."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rlzoo.comparing.sweep import split_settings, variants
from rlzoo.config import GridConfig, load_config, own_words
from rlzoo.config.zoo_names import check_names
from rlzoo.errors import UserError
from rlzoo.experiment.first_check import check_words

AUTO = "seeds=auto"
FIRST, UP_TO = 3, 10
"""Seeds that every objective starts with where they are chosen, and that one may get if nothing is said."""


@dataclass(frozen=True)
class GridWords:
    """What the words say of a grid."""

    own: GridConfig
    up_to: int
    """How many seeds a row may get where they decide something; 0 if they are given."""
    expressions: list[str]
    settings: tuple[str, ...]
    """Files and keys that all its runs share."""
    swept: tuple[str, ...]
    """Keys with a list of values, of which every objective is trained with each."""


def is_setting(word: str) -> bool:
    """Whether a word is a file or key=value; in an expression, any `=` stands behind a bracket."""
    return word.endswith((".yaml", ".yml")) or re.match(r"[\w.]+=", word) is not None


def _up_to(word: str) -> int:
    """Of `seeds=auto(up_to=10)`."""
    found = re.fullmatch(r"seeds=auto(\(up_to=(\d+)\))?", word.replace(" ", ""))
    if found is None:
        raise UserError(f"{word!r} is written seeds=auto or seeds=auto(up_to={UP_TO})")
    up_to = int(found[2] or UP_TO)
    if up_to <= FIRST:
        raise UserError(f"{word!r}: up_to must be more than the {FIRST} seeds that every objective starts with")
    return up_to


def read_grid_words(words: Sequence[str]) -> GridWords:
    """Tells words apart. Raises UserError for those that no grid could use; what expressions mean is not looked at."""
    for word in words:
        if word.partition("=")[0] in ("objective", "seed", "resume"):
            raise UserError(f"{word!r} has no effect on a grid; objectives are words of their own, seeds are seeds=0,1")
    up_to = max((_up_to(word) for word in words if word.startswith(AUTO)), default=0)
    own, others = own_words([word for word in words if not word.startswith(AUTO)], GridConfig)
    if up_to:
        own.seeds = list(range(FIRST))
    if not own.seeds or len(set(own.seeds)) < len(own.seeds) or min(own.seeds) < 0:
        raise UserError(f"seeds={own.seeds} must be one or more different numbers, none below 0")
    own.check()
    settings, swept = split_settings([word for word in others if is_setting(word)])
    for _, sweep in variants("", swept):
        check_words(load_config([*settings, *sweep.words]))
    expressions = [word for word in others if not is_setting(word)]
    for expression in expressions:
        check_names(expression)
    return GridWords(own, up_to, expressions, settings, swept)
