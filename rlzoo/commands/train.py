"""`rlzoo train`."""

import dataclasses
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from rlzoo.commands.completion import completed
from rlzoo.commands.key_table import key_table
from rlzoo.config import Config, Resolved, ShowConfig, flat, key_and_value, keys, load_config, own_words, resolve
from rlzoo.errors import UserError

SUMMARY = "train a model with an objective"
FIRST = f" (those of {Config().model.name};\nshow=config prints the defaults of another model or task)"


def declare(parser: ArgumentParser) -> None:
    """Files and keys."""
    shown = flat(dataclasses.asdict(load_config([])))
    documented = [(name, shown.get(name, default), meaning) for name, default, meaning in keys(Config)]
    parser.epilog = key_table([*documented, *keys(ShowConfig)], FIRST)
    words = parser.add_argument(
        "words", nargs="*", default=[], metavar="CONFIG.yaml | key=value", help="later ones win"
    )
    completed(words, [*keys(Config), *keys(ShowConfig)])


def run(arguments: Namespace) -> None:
    """Trains, or shows what would be trained with."""
    own, words = own_words(arguments.words, ShowConfig)
    if own.show not in ("", "config"):
        raise UserError(f"show={own.show} cannot be shown; there is show=config")
    if own.show:
        print(*_lines(resolve(words)), sep="\n")
        return

    from rlzoo.api import train

    train(*words)


def _lines(resolved: Resolved) -> Iterator[str]:
    """Each key as a file of them has it, and where its value comes from."""
    pairs = flat(dataclasses.asdict(resolved.config)).items()
    written = {key: key_and_value(key, value).replace("=", ": ", 1) for key, value in pairs}
    width = min(50, max(map(len, written.values())))
    for key, line in written.items():
        section = next(name for name in resolved.origins if f"{key}.".startswith(f"{name}."))
        yield f"{line:<{width}}  # {resolved.origins[section]}"
