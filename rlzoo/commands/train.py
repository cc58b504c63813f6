"""`rlzoo train`."""

import dataclasses
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from rlzoo.commands.key_table import declare_words, key_table
from rlzoo.config import Config, flat, load_config
from rlzoo.config.reading import Resolved, resolve
from rlzoo.config.words import key_and_value, keys_of, split_words
from rlzoo.errors import printable

SUMMARY = "train a model with an objective"
FIRST = f" (those of {Config().model.name};\nshow=config prints the defaults of another model or task)"


def declare(parser: ArgumentParser) -> None:
    """Files and keys."""
    declare_words(parser, "train", table=_table)


def _table() -> str:
    shown = flat(dataclasses.asdict(load_config([])))
    documented = [dataclasses.replace(key, default=shown.get(key.name, key.default)) for key in keys_of("train")]
    return key_table(documented, FIRST)


def run(arguments: Namespace) -> None:
    """Trains, or shows what would be trained with."""
    display, words = split_words("train", arguments.words)
    if display.show:
        print(printable("\n".join(_lines(resolve(words)))))
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
