"""Which keys each command takes: its own ones, and those of an experiment that it reads."""

from collections.abc import Sequence
from typing import Any

from rlzoo.config.command_keys import OWN, TRUSTING, TrustConfig, own_schema
from rlzoo.config.facts import BENCHMARKS, CELL, EVAL, FIT, FOLDER, TASK, Key, ReadBy, key_named, keys
from rlzoo.config.reading import is_key_and_value, own_words
from rlzoo.config.sections import Config
from rlzoo.config.unknown_keys import remedy
from rlzoo.errors import UserError

_INSTEAD = {"compare": "objectives are words of their own, seeds are seeds=0,1"}
_READER = {"task": TASK, "eval": EVAL, "benchmarks": BENCHMARKS, "fit": FIT}


def is_read(name: str, command: str) -> bool:
    """Whether a command reads the key of an experiment that has this name.

    `benchmarks` stands for `rlzoo eval` with `benchmarks=`. A grid gives each run its objective, seed and folder.
    """
    key = key_named(Config, name)
    if key is None:
        return False
    if command == "compare":
        return key.decides not in (CELL, FOLDER)
    return command == "train" or bool(_READER.get(command, ReadBy.NOBODY) & key.read_by)


def own_keys(command: str) -> tuple[Key, ...]:
    """The keys of a command that are not an experiment's."""
    of_command = keys(own_schema(command)) if command in OWN else ()
    return (*of_command, *keys(TrustConfig)) if command in TRUSTING else of_command


def keys_of(command: str) -> tuple[Key, ...]:
    """Every key that a command takes, its own first."""
    of_command = own_keys(command)
    names = {key.name for key in of_command}
    return (*of_command, *(key for key in keys(Config) if is_read(key.name, command) and key.name not in names))


def split_words(command: str, words: Sequence[str]) -> tuple[Any, list[str]]:
    """A command's own configuration, from the words that set its keys; and the other words, of an experiment.

    Raises UserError, also for a `key=value` that the command does not read. A file may set any key: it is an
    experiment's, from which the command takes what it reads.
    """
    configuration, others = own_words(words, own_schema(command))
    check_effect(command, others)
    return configuration, others


def check_effect(command: str, words: Sequence[str]) -> None:
    """Refuses each `key=value` of an experiment that a command does not read. Raises UserError."""
    for word in filter(is_key_and_value, words):
        name = word.partition("=")[0]
        if name in {key.name for key in own_keys(command)}:
            continue
        if key_named(Config, name) is None:
            raise UserError(f"unknown key {word}{remedy(name, [taken.name for taken in keys_of(command)])}")
        if not is_read(name, command):
            shown = command if command == "benchmarks" else f"rlzoo {command}"
            raise UserError(f"{word!r} has no effect on {shown}; {_INSTEAD.get(command, 'leave it out')}")
