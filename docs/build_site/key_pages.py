"""The command line and every key, from the parsers and the configuration's own classes."""

import argparse
import re
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from links import write_changed
from method_pages import escaped

from rlzoo.commands import COMMANDS
from rlzoo.config import Config, schema, words


def write(folder: Path) -> None:
    """Writes the page of the keys of an experiment and that of the commands."""
    write_changed(folder / "keys.md", keys_page())
    write_changed(folder / "commands.md", commands_page())


def keys_page() -> str:
    """Every key of an experiment, by section."""
    pieces = [
        "# Keys",
        "Every key of an experiment, as `rlzoo train` takes it: in a YAML file, or as `key=value` behind it. "
        "`show=config` prints what holds in a run and where that comes from.",
    ]
    sections: dict[str, list[schema.Key]] = {}
    for key in schema.keys(Config):
        sections.setdefault(key.name.rpartition(".")[0], []).append(key)
    for section, keys in sections.items():
        pieces += [f"## {section or 'The experiment'}", table(keys)]
    return "\n\n".join(pieces) + "\n"


def commands_page() -> str:
    """Every command with its synopsis, its options and its own keys."""
    pieces = ["# Commands", "`rlzoo COMMAND --help` says the same."]
    for name, module in COMMANDS.items():
        parser = argparse.ArgumentParser(prog=f"rlzoo {name}", add_help=False)
        module.declare(parser)
        usage = re.sub(r"\s+", " ", parser.format_usage().removeprefix("usage: ").strip())
        pieces += [f"## rlzoo {name}", f"{module.SUMMARY[0].upper()}{module.SUMMARY[1:]}.", f"```text\n{usage}\n```"]
        pieces.append(arguments(parser))
        if words.own_keys(name):
            pieces.append(table(words.own_keys(name)))
    return "\n\n".join(piece for piece in pieces if piece) + "\n"


def arguments(parser: argparse.ArgumentParser) -> str:
    """Arguments and options with their help."""
    lines = []
    for action in parser._actions:
        shown = ", ".join(action.option_strings) or str(action.metavar or action.dest)
        if action.help and action.help != argparse.SUPPRESS:
            lines.append(f"- `{shown}`: {escaped(action.help % vars(action) if '%(' in action.help else action.help)}")
    return "\n".join(lines)


def table(keys: Iterable[schema.Key]) -> str:
    """Keys with default, range, meaning, and what they decide of an experiment."""
    listed = list(keys)
    has_facts = any(key.decides for key in listed)
    heading = "| key | default | allowed | meaning |" + " decides |" * has_facts
    lines = [heading, "|---" * heading.count(" |") + "|"]
    for key in listed:
        default = key.default
        written = str(default).lower() if default is None or isinstance(default, bool) else str(default)
        shown = f"`{written}`".replace("|", r"\|") if written else "empty"
        decides = f" {key.decides.value} |" if key.decides else ""
        lines.append(f"| `{key.name}` | {shown} | {allowed(key)} | {' '.join(escaped(key.meaning).split())} |{decides}")
    return "\n".join(lines)


WORDS = {int: "whole number", float: "number", bool: "true, false", str: "text", type(None): "none", Any: "anything"}


def in_words(kind: Any) -> str:
    """A type in the words of somebody who types values."""
    inner = typing.get_args(kind)
    match typing.get_origin(kind):
        case None:
            return WORDS[kind]
        case it if it is list:
            return f"list of {in_words(inner[0])}"
        case it if it is tuple:
            return f"{len(inner)} of {in_words(inner[0])}"
        case it if it is dict:
            return "keys and values"
        case _:
            return " or ".join(in_words(it) for it in inner)


def allowed(key: schema.Key) -> str:
    """What a key may be: its type, and its range where it has one."""
    if key.choices:
        return ", ".join(f"`{choice}`" for choice in key.choices if choice)
    return f"{in_words(key.type)}, {key.range}" if key.range else in_words(key.type)
