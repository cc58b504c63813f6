"""How YAML files and `key=value` words set the keys, later ones over earlier ones."""

import ast
import dataclasses
import inspect
import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from rlzoo.config.sections import Config
from rlzoo.errors import UserError, nearest, one_line

_ELSEWHERE = dict.fromkeys(("evaluation.temperature", "evaluation.top_p"), "evaluation.decodings")
"""Names that one would look for, and where it is."""

EVALUATION_KEYS = (
    "seed",
    "output",
    "model.",
    "task.",
    "evaluation.problems",
    "evaluation.samples",
    "evaluation.decodings",
    "rollout.max_",
    "rollout.rows_",
    "rollout.engine",
    "rollout.kv_cache_gib",
)
"""What an evaluation by itself depends on."""

EMBEDDED_EXPERIMENT = str(Path(__file__).parents[1] / "embedded" / "arithmetic.yaml")


def with_embedded_default(words: Sequence[str]) -> list[str]:
    """The words of a command line that names neither a file nor another model, after the embedded experiment's."""
    other_model = any(word.startswith("model.name=") and word != "model.name=embedded:arithmetic" for word in words)
    names_file = not all(map(_is_key_and_value, words))
    return list(words) if other_model or names_file else [EMBEDDED_EXPERIMENT, *words]


def load_config(words: Sequence[str], schema: type[Any] = Config) -> Any:
    """The configuration of a command line: YAML files and `key=value` words, later ones over earlier ones.

    Raises UserError for a missing or unreadable file, an unknown key (with the nearest one), a value of the wrong type
    or out of range.
    """
    config = OmegaConf.structured(schema)
    for word in words:
        addition = _read_word(word) if _is_key_and_value(word) else _read_file(word)
        config = _merge(config, addition, word)
    return OmegaConf.to_object(config)


def given_keys(words: Sequence[str]) -> set[str]:
    """The keys that these files and `key=value` words set themselves."""
    return {key for word in words for key in flat(_read_word(word) if _is_key_and_value(word) else _read_file(word))}


def listed(word: str, key: str) -> str:
    """`key=a,b` as `key=[a,b]`; any other word as it is."""
    name, _, value = word.partition("=")
    return word if name != key or value.startswith("[") else f"{key}=[{value}]"


def _is_key_and_value(word: str) -> bool:
    """Whether it is no file: the name of a run folder may have a `=` in it."""
    return "=" in word and not os.path.isfile(word)


def _read_file(name: str) -> dict[str, Any]:
    if not name.endswith((".yaml", ".yml")):
        raise UserError(f"{name!r} is neither a key=value nor a .yaml file")
    if not Path(name).is_file():
        raise UserError(f"configuration file {name!r} does not exist")
    try:
        content = OmegaConf.to_container(OmegaConf.load(name))
    except (OmegaConfBaseException, YAMLError, OSError, UnicodeDecodeError) as error:
        raise UserError(f"configuration file {name!r} is not readable: {_said(error)}") from None
    if not isinstance(content, dict):
        raise UserError(f"configuration file {name!r} holds no keys")
    return {str(key): value for key, value in content.items()}


def _read_word(word: str) -> dict[str, Any]:
    key, _, text = word.partition("=")
    if key in ("objective", "against", "title"):
        value: Any = text
    else:
        try:
            value = OmegaConf.to_container(OmegaConf.create(f"value: {text}"))["value"]  # type: ignore[index, call-overload]
        except (OmegaConfBaseException, YAMLError) as error:
            raise UserError(f"{word!r} is not readable: {_said(error)}") from None
    nested: Any = value
    for name in reversed(key.split(".")):
        nested = {name: nested}
    return dict(nested)


def _merge(config: DictConfig, addition: Mapping[str, Any], source: str) -> DictConfig:
    known = list(keys(type(OmegaConf.to_object(config))))
    for key, value in flat(addition).items():
        if not any(key == name or (key + ".").startswith(name + ".") for name, _, _ in known):
            names = [name for name, _, _ in known]
            meant = [_ELSEWHERE[key]] if key in _ELSEWHERE else [name for name in names if name.endswith("." + key)]
            hint = nearest(key, names, most=1) if key not in _ELSEWHERE else ""
            hint = hint or "".join(f"; did you mean {name}?" for name in meant[:1])
            hint = hint or "; rlzoo train --help lists the keys"
            raise UserError(f"unknown key {key} (={value!r}) in {source!r}{hint}")
        try:
            OmegaConf.update(config, key, value, force_add=True)
        except OmegaConfBaseException as error:
            raise UserError(f"{key}={value!r}: {_said(error)}") from None
    return config


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dotted keys; an empty mapping stays a value."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        result.update(flat(value, name + ".") if isinstance(value, Mapping) and value else {name: value})
    return result


def keys(schema: type[Any], prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    """Every key of a configuration with its default and its docstring."""
    docs = _field_docs(schema)
    for item in dataclasses.fields(schema):
        name = f"{prefix}{item.name}"
        if dataclasses.is_dataclass(item.type):
            assert isinstance(item.type, type)
            yield from keys(item.type, name + ".")
        else:
            yield name, getattr(schema(), item.name), docs.get(item.name, "")


def _field_docs(schema: type[Any]) -> dict[str, str]:
    """The string literal below each field of a dataclass."""
    body = ast.parse(inspect.getsource(schema)).body[0]
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: doc.value.value
        for field, doc in itertools.pairwise(body.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant) and isinstance(doc.value.value, str)
    }


def words_of(config: Config) -> list[str]:
    """The `key=value` words that lead from the defaults to this configuration."""
    model = f"model.name={config.model.name}"
    default = flat(dataclasses.asdict(load_config(with_embedded_default([model]))))
    words = [model] if with_embedded_default([model]) == [model] else []
    for key, value in flat(dataclasses.asdict(config)).items():
        if key not in default or value != default[key]:
            words.append(f"{key}={value if key == 'objective' else json.dumps(value)}")
    return words


def to_yaml(config: Any) -> str:
    """The whole configuration as YAML that `load_config` reads back."""
    return OmegaConf.to_yaml(OmegaConf.structured(config))


def _said(error: Exception) -> str:
    """OmegaConf's message without the lines that name its own types."""
    return one_line(str(error).split("\n    full_key")[0])
