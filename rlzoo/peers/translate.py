"""An expression for the settings of another library, and settings for an expression, with every difference named."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from objectives import Objective, ObjectiveError, Part, Term, parse, read_terms
from rlzoo.errors import UserError, one_line
from rlzoo.peers import PEERS
from rlzoo.peers.rows import Peer, Row, bound, read, written

_UNSAID = ("single_pass", "token_ratio")
"""What every library has at a stage of which its settings say nothing."""


@dataclass(frozen=True)
class Translation:
    """What was asked for, and in what it is not the same."""

    peer: str
    version: str
    """The library's, whose source the table was read from."""
    expression: str
    settings: dict[str, Any]
    """Of the other library, those that the expression comes from or goes to."""
    differences: tuple[str, ...]
    elsewhere: tuple[str, ...] = ()
    """Settings of the run, which have no part in the objective."""


def load(path: str) -> dict[str, Any]:
    """The settings in a YAML, JSON or TOML file. Raises UserError."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
        found = tomllib.loads(text) if file.suffix == ".toml" else yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {one_line(error)}") from None
    except (yaml.YAMLError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{path} is neither YAML, JSON nor TOML: {one_line(error)}") from None
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise UserError(f"{path} holds no settings; name: value, one a line, is what is read")
    return found


def from_peer(name: str, given: Mapping[str, Any]) -> Translation:
    """The expression for settings of a library. Raises UserError for what nothing here does."""
    peer = PEERS[name]
    known, elsewhere, unknown = read(peer, given)
    values, terms, differences, seen = {**peer.defaults, **known}, [], list(peer.always), set()
    for setting, other in peer.instead.items():
        if values[setting] is None:
            values[setting] = values[other]
            seen.add(other)
    for stage, rows in peer.stages.items():
        row, numbers = _holding(peer, stage, rows, values, known)
        seen |= set(row.settings)
        terms += [_filled(term, numbers) for term in read_terms(row.terms)] if row.terms else []
        differences += [f"{_shown(row, values)}: {row.difference}"] if row.difference else []
    text = "grpo+" + "+".join(terms) + ("" if any(term.startswith("kl(") or term == "kl" for term in terms) else "-kl")
    try:
        expression = _readable(parse(text))
    except ObjectiveError as error:
        raise UserError(f"{name}: these settings make {text}, and {error}") from None
    idle = [key for key in known if key not in seen and known[key] != peer.defaults[key]]
    differences += [f"{key}={known[key]}: {name} does not read it beside the others" for key in idle]
    differences += [f"{item}: not known, left out" for item in unknown]
    differences += peer.odd(values)
    used = {key: values[key] for key in sorted(seen)}
    return Translation(name, peer.version, expression, used, tuple(differences), tuple(elsewhere))


def to_peer(name: str, objective: Objective) -> Translation:
    """The settings of a library for an objective. Raises UserError where it has nothing for a part."""
    peer = PEERS[name]
    parts = {part.name: part for part in objective.parts}
    covers = _covers(list(peer.stages.values()), parts, {}, [])
    rest, settings, rows = min(covers, key=lambda cover: len(cover[0]))
    left = [part.term() for key, part in rest.items() if key not in _UNSAID]
    if left:
        raise UserError(f"{name} {peer.version} has no setting for {' and '.join(left)} in {objective}")
    differences = [f"{_shown(row, settings)}: {row.difference}" for row in rows if row.difference]
    return Translation(name, peer.version, str(objective), settings, (*peer.always, *differences))


def _readable(objective: Objective) -> str:
    """A recipe's name where it is one, else grpo and what is not grpo's: the shortest may start from anything."""
    if re.fullmatch(r"\w+(\(variant=\w+\))?", objective.expression):
        return objective.expression
    base = parse("grpo").parts
    kept = {part.name for part in objective.parts}
    added = "".join(f"+{part.term()}" for part in objective.parts if part not in base)
    return "grpo" + added + "".join(f"-{part.name}" for part in base if not (part.exclusive or part.name in kept))


def _holding(
    peer: Peer, stage: str, rows: Sequence[Row], values: Mapping[str, Any], known: Mapping[str, Any]
) -> tuple[Row, dict[str, Any]]:
    """The row of a stage that the settings make true, and the numbers in it."""
    for row in rows:
        numbers: dict[str, Any] = {}
        if all(bound(pattern, values[key], numbers) for key, pattern in row.settings.items()):
            if row.terms is None:
                raise UserError(f"{peer.name}: {_shown(row, values)} has nothing here: {row.difference}")
            return row, numbers
    keys = dict.fromkeys(key for row in rows for key in row.settings)
    given = [key for key in keys if key in known] or list(keys)[:1]
    what = ", ".join(f"{key}={values[key]}" for key in given)
    raise UserError(f"{peer.name}: {what} has nothing here ({stage})")


def _shown(row: Row, values: Mapping[str, Any]) -> str:
    key = next(iter(row.settings))
    return f"{key}={values[key]}"


def _filled(term: Term, numbers: Mapping[str, Any]) -> str:
    """A term with numbers for its words of capitals."""
    values = [f"{key}={_expressed(numbers.get(str(value), value))}" for key, value in term.parameters.items()]
    return f"{term.name}({','.join(values)})" if values else term.name


def _expressed(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def _covers(
    stages: list[Sequence[Row]], parts: Mapping[str, Part], settings: dict[str, Any], rows: list[Row]
) -> Iterator[tuple[Mapping[str, Part], dict[str, Any], list[Row]]]:
    """Every way to take a row of each stage that has one: the parts that are left, the settings, the rows."""
    if not stages:
        yield parts, settings, rows
        return
    fits = False
    for row in stages[0]:
        numbers: dict[str, Any] = {}
        terms = read_terms(row.terms) if row.terms else []
        if row.terms is None or not all(_is(term, parts, numbers) for term in terms):
            continue
        asked = {key: written(pattern, numbers) for key, pattern in row.settings.items()}
        if all(settings.get(key, value) == value for key, value in asked.items()):
            fits = True
            rest = {key: part for key, part in parts.items() if key not in [term.name for term in terms]}
            yield from _covers(stages[1:], rest, settings | asked, [*rows, row])
    if not fits:
        yield from _covers(stages[1:], parts, settings, rows)


def _is(term: Term, parts: Mapping[str, Part], numbers: dict[str, Any]) -> bool:
    """Whether a term of a row names one of the parts as it is."""
    part = parts.get(term.name)
    if part is None or set(term.parameters) - {item.name for item in fields(part)}:
        return False
    return all(
        bound(term.parameters.get(item.name, item.default), getattr(part, item.name), numbers) for item in fields(part)
    )
