"""How YAML files and `key=value` words set the keys, later ones over earlier ones."""

import ast
import dataclasses
import inspect
import itertools
import json
import os
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from rlzoo.config.sections import Config
from rlzoo.config.unknown_keys import meant_key, remedy
from rlzoo.errors import UserError, one_line

EVALUATION_KEYS = (
    "seed",
    "output",
    "model.",
    "task.",
    "evaluation.problems",
    "evaluation.samples",
    "evaluation.decodings",
    "evaluation.stop",
    "rollout.max_",
    "rollout.rows_",
    "rollout.engine",
    "rollout.server",
    "rollout.kv_cache_gib",
)
"""What an evaluation by itself depends on."""

_EMBEDDED = Path(__file__).parents[1] / "embedded"
_AS_WRITTEN = ("objective", "against", "title")
"""Keys whose value is text whatever it looks like, quotes included; other text may be quoted."""
_QUOTED = re.compile(r"""\s*("([^"\\]|\\.)*"|'([^']|'')*')\s*""")


@dataclasses.dataclass(frozen=True)
class Resolved:
    """A configuration, and where its values come from."""

    config: Any
    origins: Mapping[str, str]
    """Of every key: `default`, the shipped model, the file, or `command line`."""


def load_config(words: Sequence[str], schema: type[Any] = Config) -> Any:
    """The configuration that these YAML files and `key=value` words make, later ones over earlier ones.

    Below them lies what the chosen model brings: a shipped one has an experiment of its own. Raises UserError for a
    missing or unreadable file, an unknown key (with the nearest one), and a value of the wrong type.
    """
    return resolve(words, schema).config


def resolve(words: Sequence[str], schema: type[Any] = Config) -> Resolved:
    """`load_config`, with where each value comes from."""
    config, types = OmegaConf.structured(schema), types_of(schema)
    origins = dict.fromkeys(types, "default")
    said = [(word, flat(_read(word, types))) for word in words]
    shipped = _shipped_with({key: value for _, values in said for key, value in values.items()}, schema)
    for word, values in [*shipped.items(), *said]:
        is_pair = _is_key_and_value(word)
        _merge(config, values, types, said=word if is_pair else "", where="" if is_pair else f" in {word!r}")
        set_here = [key for key in types if any(f"{given}.".startswith(f"{key}.") for given in values)]
        origins |= dict.fromkeys(set_here, "command line" if is_pair else word)
    try:
        return Resolved(OmegaConf.to_object(config), origins)
    except OmegaConfBaseException as error:
        raise UserError(f"a value is not readable: {_said(error)}") from None


def _shipped_with(said: Mapping[str, Any], schema: type[Any]) -> dict[str, Mapping[str, Any]]:
    """The shipped model that is chosen, or that of the task where no model is, and the values that it brings."""
    if schema is not Config:
        return {}
    files = {f"embedded:{path.stem}": path for path in _EMBEDDED.glob("*.yaml")}
    of_task = f"embedded:{said.get('task.name')}"
    model = said.get("model.name", of_task if of_task in files else Config().model.name)
    return {model: _brought_by(files[model])} if model in files else {}


@lru_cache
def _brought_by(file: Path) -> Mapping[str, Any]:
    return flat(_read_file(str(file)))


def _read(word: str, types: Mapping[str, Any]) -> dict[str, Any]:
    if _is_key_and_value(word):
        return _read_word(word, types)
    if Path(word).suffix in (".yaml", ".yml"):
        return _read_file(word)
    raise UserError(f"{word!r} is neither a key=value nor a .yaml file{_meant_word(word, types)}")


def own_words(words: Sequence[str], schema: type[Any]) -> tuple[Any, list[str]]:
    """A command's own configuration, from the words that set its keys; and the other words. Raises UserError."""
    names = tuple(item.name for item in dataclasses.fields(schema))
    own = [word for word in words if "=" in word and re.split(r"[.=]", word)[0] in names]
    return load_config(own, schema), [word for word in words if word not in own]


def option_as_word(option: str, words: Sequence[str]) -> str:
    """What to write instead of an option such as `--steps`, `words` being what follows it; empty if nothing is near."""
    written, _, value = option.lstrip("-").partition("=")
    name = written.replace("-", "_")
    value = value or next((word for word in words[:1] if "=" not in word and not word.startswith("-")), "...")
    meant = name if name in types_of(Config) else meant_key(name, list(types_of(Config)))
    return meant and f"{meant}={value}"


def given_keys(words: Sequence[str]) -> set[str]:
    """The keys that these files and `key=value` words set themselves."""
    types = types_of(Config)
    return {key for word in words for key in flat(_read(word, types))}


def _is_key_and_value(word: str) -> bool:
    """Whether it is neither a file, whose name may have a `=` in it, nor an expression with one behind a bracket."""
    key, equals, _ = word.partition("=")
    return bool(equals) and "(" not in key and not os.path.isfile(word)


def _read_file(name: str) -> dict[str, Any]:
    if not Path(name).is_file():
        raise UserError(f"configuration file {name!r} does not exist")
    try:
        content = OmegaConf.to_container(OmegaConf.load(name))
    except (OmegaConfBaseException, YAMLError, OSError, UnicodeDecodeError) as error:
        raise UserError(f"configuration file {name!r} is not readable: {_said(error)}") from None
    if not isinstance(content, dict) or not Path(name).read_text(encoding="utf-8").strip():
        raise UserError(f"configuration file {name!r} holds no keys")
    return {str(key): value for key, value in content.items()}


def _read_word(word: str, types: Mapping[str, Any]) -> dict[str, Any]:
    key, _, text = word.partition("=")
    kind = types.get(key)
    nothing = ("",) if kind is str else ("", "null")
    if key in _AS_WRITTEN or (kind in (str, str | None) and text not in nothing and not _QUOTED.fullmatch(text)):
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


def _meant_word(word: str, types: Mapping[str, Any]) -> str:
    """What is missing before a value that was written alone."""
    if "objective" not in types:
        return ""
    if word.endswith((".json", ".jsonl", ".parquet")):
        return f"; did you mean task.name={word}?"
    key = "objective" if "(" in word or "/" not in word else "model.name"
    return f"; did you mean {key}={word}?"


def _merge(config: DictConfig, values: Mapping[str, Any], types: Mapping[str, Any], said: str, where: str) -> None:
    """Sets keys. An error shows what was `said`, or else the key and the value, and `where` they come from."""
    for key, value in values.items():
        shown = (said or f"{key}={json.dumps(value, default=str)}") + where
        name = next((name for name in types if f"{key}.".startswith(f"{name}.")), None)
        if name is None:
            raise UserError(f"unknown key {shown}{remedy(key, list(types))}")
        if "${" in json.dumps(value, default=str):
            raise UserError(f"{shown}: ${{...}} has no meaning here and is never filled in; write what it stands for")
        try:
            OmegaConf.update(config, key, _fitting(config, key, value, types[name]), force_add=True)
        except (OmegaConfBaseException, ValueError, TypeError):
            raise UserError(f"{shown}: it must be {_misfit(key, types[name])}") from None


def _fitting(config: DictConfig, key: str, value: Any, kind: Any) -> Any:
    """One value for a list is a list of one, and `a,b` one of two; nothing for a text that may be empty is empty."""
    if typing.get_origin(kind) in (list, tuple) and value is not None and not isinstance(value, list):
        return [part.strip() for part in value.split(",")] if isinstance(value, str) else [value]
    if value is None and type(None) not in typing.get_args(kind):
        if kind is str and OmegaConf.select(config, key) == "":
            return ""
        raise UserError(f"{key}= is empty; give it a value, or leave it out")
    return value


_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
_PLURAL = {int: "whole numbers", float: "numbers", str: "words"}


def _misfit(key: str, kind: Any) -> str:
    if key == "seed":
        return "a whole number; rlzoo compare OBJECTIVE seeds=0,1 trains on several"
    inner = typing.get_args(kind)
    if typing.get_origin(kind) in (list, tuple):
        return f"{len(inner) if len(inner) > 1 else 'one or more'} {_PLURAL[inner[0]]} with commas between"
    alone = [_KINDS[it] for it in (kind, *inner) if it in _KINDS]
    return "keys and values, such as {digits: 3}" if typing.get_origin(kind) is dict else alone[0]


def types_of(schema: type[Any], prefix: str = "") -> dict[str, Any]:
    """Every key of a configuration and its type."""
    types: dict[str, Any] = {}
    for item in dataclasses.fields(schema):
        name, inner = f"{prefix}{item.name}", item.type
        is_section = isinstance(inner, type) and dataclasses.is_dataclass(inner)
        types |= types_of(typing.cast(type[Any], inner), f"{name}.") if is_section else {name: inner}
    return types


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
    """The `key=value` words that lead to this configuration, beside those that its model or its task brings."""
    names = [f"model.name={config.model.name}", f"task.name={json.dumps(config.task.name)}"]
    for words in ([], names[1:], names[:1], names):
        shorter: Config = load_config(words)
        if (shorter.model.name, shorter.task.name) == (config.model.name, config.task.name):
            break
    default = flat(dataclasses.asdict(shorter))
    values = flat(dataclasses.asdict(config))
    return words + [key_and_value(key, it) for key, it in values.items() if key not in default or it != default[key]]


def key_and_value(key: str, value: Any) -> str:
    """The word that sets a key to this value, as `load_config` reads it."""
    return f"{key}={value if key in _AS_WRITTEN else json.dumps(value, ensure_ascii=False)}"


def to_yaml(config: Any) -> str:
    """The whole configuration as YAML that `load_config` reads back."""
    return OmegaConf.to_yaml(OmegaConf.structured(config))


def _said(error: Exception) -> str:
    """OmegaConf's message without the lines that name its own types."""
    return one_line(str(error).split("\n    full_key")[0])
