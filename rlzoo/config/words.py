"""Keys as the words of a command line: which command takes which, and configurations and Python's values as words."""

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence, Set
from functools import cache
from pathlib import Path
from typing import Any

from rlzoo.config.command_keys import OWN, TRUSTING, TrustConfig, own_schema
from rlzoo.config.reading import REMOVED, flat, is_key_and_value, load_config, own_words, read_file, remedy
from rlzoo.config.recorded import is_of_a_run
from rlzoo.config.schema import BENCHMARKS, CELL, EVAL, FIT, FOLDER, TASK, Decides, Key, ReadBy, key_named, keys
from rlzoo.config.sections import Config
from rlzoo.errors import UserError
from rlzoo.scripts import path_of

_INSTEAD = {
    "objective": "objectives are words of their own: rlzoo compare grpo dapo",
    "seed": "seeds are seeds=0,1",
    "resume": "the same command goes on; leave it out",
}
"""What to type in a comparison in place of a key of one run."""
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
    return command == "train" or bool(_READER.get(command, ReadBy.NONE) & key.read_by)


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
            instead = _INSTEAD.get(name, "leave it out") if command == "compare" else "leave it out"
            raise UserError(f"{word!r} has no effect on {shown}; {instead}")


# ---- configurations as words and as YAML -----------------------------------------------------------------------------


def deciding(config: Config, what: Set[Decides]) -> dict[str, Any]:
    """The values of the keys that decide this, by dotted key."""
    return {name: value for name, value in flat(dataclasses.asdict(config)).items() if decided_by(name) in what}


def decided_by(name: str) -> Decides | None:
    """What a key of an experiment decides."""
    key = key_named(Config, name)
    return None if key is None else key.decides


def words_of(config: Config, what: Set[Decides] = frozenset(Decides)) -> list[str]:
    """The `key=value` words that lead to this configuration, beside those that its model or its task brings.

    Keys that decide something else than `what` are left out.
    """
    names = [f"model.name={config.model.name}", f"task.name={json.dumps(config.task.name)}"]
    for words in ([], names[1:], names[:1], names):
        shorter: Config = load_config(words)
        if (shorter.model.name, shorter.task.name) == (config.model.name, config.task.name):
            break
    default = flat(dataclasses.asdict(shorter))
    values = flat(dataclasses.asdict(config)).items()
    changed = [(name, value) for name, value in values if name not in default or value != default[name]]
    return words + [key_and_value(name, value) for name, value in changed if decided_by(name) in what]


def inlined(words: Sequence[str]) -> list[str]:
    """The words with the keys of each YAML file in its place, so that no later edit of a file changes what they mean.

    The config.yaml of a run stays: what it may do is asked whenever it is read.
    """
    return [each for word in words for each in _keys_in(word)]


def _keys_in(word: str) -> list[str]:
    if is_key_and_value(word) or is_of_a_run(Path(word)):
        return [word]
    written = ((name, value) for name, value in flat(read_file(word)).items() if name not in REMOVED)
    return [f"{name}=" if value is None else key_and_value(name, value) for name, value in written]


def key_and_value(name: str, value: Any) -> str:
    """The word that sets a key to this value, as `load_config` reads it."""
    if name in _expressions():
        return f"{name}={value}"
    return f"{name}={_NOT_OF_YAML.sub(_as_number, json.dumps(value, ensure_ascii=False))}"


def _as_number(character: re.Match[str]) -> str:
    return f"\\u{ord(character[0]):04x}"


_NOT_OF_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")
"""What YAML would read as a space or refuse."""


@cache
def _expressions() -> frozenset[str]:
    """Keys whose text is taken as written, quotes included; other text may be quoted."""
    schemas: list[type[Any]] = [Config, *(schema for schema in OWN.values() if isinstance(schema, type))]
    return frozenset(key.name for schema in schemas for key in keys(schema) if key.is_expression)


def to_yaml(config: Any) -> str:
    """The whole configuration as YAML that `load_config` reads back."""
    from omegaconf import OmegaConf

    return OmegaConf.to_yaml(OmegaConf.create(dataclasses.asdict(config)))


# ---- values from Python ----------------------------------------------------------------------------------------------

_SHORT = {"model": "model.name", "task": "task.name", "reward": "task.reward"}
"""Arguments with a name of their own -> the keys that they set."""


def python_words(keys: Mapping[str, Any]) -> list[str]:
    """Keys from Python as a command line has them."""
    return [word for key, value in keys.items() for word in _words_of_one(key, value)]


def _words_of_one(key: str, value: Any) -> list[str]:
    if isinstance(value, Mapping) and not key.endswith("options"):
        return [word for name, inner in flat(value).items() for word in _words_of_one(f"{key}.{name}", inner)]
    if value is None and "." not in key:  # an argument that is not given; behind a dot, None is a value as in a file
        return []
    key = _SHORT.get(key, key)
    return [key_and_value(key, _plain(key, value))]


def _plain(key: str, value: Any) -> Any:
    """As JSON has it; a function is the name under which other processes find it."""
    if callable(value):
        return path_of(key, value)
    value = str(value) if isinstance(value, Path) else native(value)
    if isinstance(value, Mapping):
        return {name: _plain(f"{key}.{name}", member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(key, member) for member in value]
    if value is None or isinstance(value, str | int | float):
        return value
    kind = type(value).__name__
    raise UserError(f"{key}: no key takes a value of type {kind}; give numbers, text, lists, a class or a function")


def native(value: Any) -> Any:
    """Python's own number or lists instead of numpy's and torch's."""
    return value.tolist() if hasattr(value, "tolist") else value
