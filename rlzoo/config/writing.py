"""Configurations as words and as YAML, which `load_config` reads back; and what of them decides a result."""

import dataclasses
import json
from collections.abc import Set
from functools import cache
from typing import Any

from omegaconf import OmegaConf

from rlzoo.config.command_keys import OWN
from rlzoo.config.facts import Decides, key_named, keys
from rlzoo.config.reading import flat, load_config
from rlzoo.config.sections import Config


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


def key_and_value(name: str, value: Any) -> str:
    """The word that sets a key to this value, as `load_config` reads it."""
    return f"{name}={value if name in _expressions() else json.dumps(value, ensure_ascii=False)}"


@cache
def _expressions() -> frozenset[str]:
    """Keys whose text is taken as written, quotes included; other text may be quoted."""
    schemas: list[type[Any]] = [Config, *(schema for schema in OWN.values() if isinstance(schema, type))]
    return frozenset(key.name for schema in schemas for key in keys(schema) if key.is_expression)


def to_yaml(config: Any) -> str:
    """The whole configuration as YAML that `load_config` reads back."""
    return OmegaConf.to_yaml(OmegaConf.create(dataclasses.asdict(config)))
