"""The keys that a command takes, as its words and in its help."""

import textwrap
from argparse import ArgumentParser
from collections.abc import Callable, Iterable

from rlzoo.config.schema import Key
from rlzoo.config.words import keys_of


def declare_words(
    parser: ArgumentParser,
    command: str,
    metavar: str = "CONFIG.yaml | key=value",
    help: str = "later ones win",
    nargs: str = "*",
    table: Callable[[], str] | None = None,
) -> None:
    """Adds the words of a command, and the table of its keys unless another is given: only --help writes it."""
    parser.set_defaults(table=table or (lambda: key_table(keys_of(command))))
    parser.add_argument("words", nargs=nargs, metavar=metavar, help=help)


def key_table(keys: Iterable[Key], note: str = "") -> str:
    """Names, defaults and meanings of keys; `note` goes into the heading."""
    lines = [f"keys, with their defaults{note}:"]
    for key in keys:
        lines.append(f"  {key.name}={'' if key.default is None else key.default}")
        lines += textwrap.wrap(
            " ".join(key.meaning.split()), width=78, initial_indent="      ", subsequent_indent="      "
        )
    return "\n".join(lines)
