"""An expression for the settings of another library, and settings for an expression, with every difference named."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import takewhile
from typing import Any

from objectives import Objective, ObjectiveError, Part, Term, parse, read_terms
from objectives.part import write_term
from objectives.peers import PEERS
from objectives.peers.installed import flat
from objectives.peers.table import OF_OBJECTIVES, PeerTable, Program, Rule, matches, read, renamed, setting_value

_UNSAID = ("single_pass", "token_ratio")
"""Parts that every library has at a stage without settings."""


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


@dataclass(frozen=True)
class Held:
    """The rule of a stage that settings make true."""

    rule: Rule
    terms: tuple[str, ...]
    """With numbers for words of capitals."""
    setting: str
    """The setting that decides it, as `name=value`."""


def from_peer(name: str, given: Mapping[str, Any], undecided: Collection[str] = (), program: str = "") -> Translation:
    """The expression for settings of a library; `undecided` are those that are set to values that are not known.

    `program` is the module that they are given to, which may have defaults of its own.

    Raises ObjectiveError for what nothing here does, and where the expression depends on what is undecided.
    """
    table = PEERS[name]
    other = next((what for module, what in table.programs.items() if program.startswith(module)), Program())
    new_names = {former: now for former, now, _ in renamed(other.names, given)}
    ignored = {key: (now, value) for key, now, value in renamed(other.ignored, given)}
    given = _with_new_names(name, {key: value for key, value in flat(given) if key not in ignored}, new_names)
    known, elsewhere, unknown = read(table, given)
    own = next(
        (values for module, values in table.installed.programs.items() if program.startswith(f"{module}.")), None
    )
    usual = {**(own or {}), **other.defaults}
    values = {**table.defaults, **{key: value for key, value in usual.items() if key in table.defaults}, **known}
    set_ones = [item for item in unknown if not item.endswith("=None") and not _is_said_elsewhere(item, values)]
    if doubtful := [item for item in set_ones if OF_OBJECTIVES.search(item.partition("=")[0])]:
        raise ObjectiveError(
            f"{name}: {doubtful[0]} is not known here as of {table.version}, and its name is that of a setting of the "
            "objective. Leave it out if it has no effect there."
        )
    held = rules_held(table, values)
    read_ones = _settings_weighed(table, values, held)
    for key in undecided:
        if table.other_names.get(key.lstrip("+"), key.lstrip("+")) in read_ones:
            raise ObjectiveError(
                f"{key} depends on a condition, a command or an argument of the script. Put the settings of a run into "
                "a file, key=value in each line, and name that."
            )
    for stage in held:
        if stage.rule.terms is None:
            raise ObjectiveError(f"{name}: {stage.setting} has nothing here: {stage.rule.difference}")
    seen = settings_read(table, values, held)
    differences = [
        *table.always,
        *(f"{stage.setting}: {stage.rule.difference}" for stage in held if stage.rule.difference),
    ]
    named = seen | table.also_of_run | set(new_names.values())
    idle = [key for key in known if key not in named and known[key] != table.defaults[key]]
    differences += [f"{key}={known[key]}: {name} does not read it beside the others" for key in idle]
    differences += [f"{item}: not known, left out" for item in unknown]
    differences += [
        f"{key}={value}: {name} {table.version} ignores this name, which older versions read; it reads {now}"
        for key, now, value in renamed(table.former_names, given)
    ]
    differences += [
        f"{key}={value}: {program} ignores this name; it reads {now}" for key, (now, value) in ignored.items()
    ]
    if program and own is None and table.installed.programs:
        differences.append(f"{program} is no program of {name} {table.version}: what it does otherwise is not known")
    text = composition(held)
    try:
        objective = parse(text)
        expression = _readable(objective)
    except ObjectiveError as error:
        raise ObjectiveError(f"{name}: these settings make {text}, and {error}") from None
    written = parse(expression)
    differences += [notice for notice in written.notices if notice not in written.unused]
    used = {key: values[key] for key in sorted(seen)}
    return Translation(name, table.version, expression, used, tuple(differences), tuple(elsewhere))


def _with_new_names(name: str, given: Mapping[str, Any], new_names: Mapping[str, str]) -> dict[str, Any]:
    """The settings under the names that the library has. Raises ObjectiveError for one that is given twice."""
    values: dict[str, Any] = {}
    for key, value in given.items():
        now = new_names.get(key, key)
        if values.setdefault(now, value) != value:
            raise ObjectiveError(f"{name}: {now} is given twice, as {values[now]} and as {value}")
    return values


def _is_said_elsewhere(item: str, values: Mapping[str, Any]) -> bool:
    """Whether a known setting with the same last word has the same value, as `policy_loss.tau_pos` and `tau_pos`."""
    name, _, value = item.partition("=")
    last = name.rpartition(".")[2]
    return any(key.rpartition(".")[2] == last and str(known) == value for key, known in values.items())


def to_peer(name: str, objective: Objective) -> Translation:
    """The settings of a library for an objective. Raises ObjectiveError where it has nothing for a part."""
    table = PEERS[name]
    rest, settings, rules = nearest_settings(table, objective)
    left = [part.term() for key, part in rest.items() if key not in _UNSAID]
    if left:
        has_way = table.adapter and not table.lacking(objective.needs)
        remedy = f"; for parts of the zoo there is {table.adapter}" if has_way else ""
        raise ObjectiveError(f"{name} {table.version} has no setting for {' and '.join(left)} in {objective}{remedy}")
    there = [held.rule for held in rules_held(table, {**table.defaults, **settings})]
    if any(rule not in there and not rule.difference for rule in rules):  # another rule is read before it
        raise ObjectiveError(f"{name} {table.version} has no setting for all parts of {objective} together")
    differences = [f"{_deciding(rule, settings)}: {rule.difference}" for rule in rules if rule.difference]
    return Translation(name, table.version, str(objective), settings, (*table.always, *differences))


def rules_held(table: PeerTable, values: Mapping[str, Any]) -> list[Held]:
    """The rule of every stage that settings make true; where there is none, one that nothing here does."""
    filled = {
        key: values[table.instead[key]] if value is None and key in table.instead else value
        for key, value in values.items()
    }
    return [_held(table, stage, values, table.as_read(filled)) for stage in table.stages]


def _held(table: PeerTable, stage: str, values: Mapping[str, Any], as_read: Mapping[str, Any]) -> Held:
    rules = table.stages[stage]
    for rule in rules:
        numbers: dict[str, Any] = {}
        if all(matches(pattern, as_read[key], numbers) for key, pattern in rule.settings.items()):
            terms = tuple(_filled(term, numbers) for term in read_terms(rule.terms)) if rule.terms else ()
            return Held(rule, terms, _deciding(rule, values))
    keys = list(dict.fromkeys(key for rule in rules for key in rule.settings))
    changed = [key for key in keys if values[key] != table.defaults[key]] or keys[:1]
    setting = ", ".join(f"{key}={values[key]}" for key in changed)
    return Held(Rule(None, {key: values[key] for key in keys}, f"there is no such part ({stage})"), (), setting)


def settings_read(table: PeerTable, values: Mapping[str, Any], held: Sequence[Held]) -> set[str]:
    """The settings that the rules depend on."""
    keys = {key for stage in held for key in stage.rule.settings}
    return keys | {table.instead[key] for key in keys & table.instead.keys() if values[key] is None}


def _settings_weighed(table: PeerTable, values: Mapping[str, Any], held: Sequence[Held]) -> set[str]:
    """The settings without which it is not known that these rules hold, and no earlier one of their stage."""
    weighed = list(held)
    for stage, rules in zip(held, table.stages.values(), strict=True):
        before = takewhile(lambda rule, holds=stage.rule: rule is not holds, rules)  # type: ignore[misc]
        weighed += [Held(rule, (), "") for rule in before]
    return settings_read(table, {**values, **dict.fromkeys(table.instead)}, weighed)


def composition(held: Sequence[Held]) -> str:
    """The expression of rules, from grpo on; its divergence is there only if a rule has it."""
    terms = [term for stage in held for term in stage.terms]
    return "+".join(["grpo", *terms]) + ("" if any(re.match(r"kl\b", term) for term in terms) else "-kl")


def nearest_settings(table: PeerTable, objective: Objective) -> tuple[Mapping[str, Part], dict[str, Any], list[Rule]]:
    """The parts that no setting stands for, the settings for all others, and the rules that say so.

    Of several ways the one that has a rule for most stages, and changes the fewest settings.
    """
    parts = {part.name: part for part in objective.parts}

    def rank(cover: tuple[Mapping[str, Part], dict[str, Any], list[Rule]]) -> tuple[int, int, int]:
        rest, settings, rules = cover
        return len(rest), -len(rules), sum(value != table.defaults[key] for key, value in settings.items())

    return min(_covers(list(table.stages.values()), parts, {}, []), key=rank)


def _readable(objective: Objective) -> str:
    """A recipe's name where it is one, else grpo and what is not grpo's: the shortest may start from anything."""
    if re.fullmatch(r"\w+(\(variant=\w+\))?", objective.expression):
        return objective.expression
    base = parse("grpo").parts
    kept = {part.name for part in objective.parts}
    added = "".join(f"+{part.term()}" for part in objective.parts if part not in base)
    return "grpo" + added + "".join(f"-{part.name}" for part in base if not (part.exclusive or part.name in kept))


def _deciding(rule: Rule, values: Mapping[str, Any]) -> str:
    key = next(iter(rule.settings))
    return f"{key}={values[key]}"


def _filled(term: Term, numbers: Mapping[str, Any]) -> str:
    """A term with numbers for its words of capitals."""
    return write_term(term.name, {key: numbers.get(str(value), value) for key, value in term.parameters.items()})


def _covers(
    stages: list[Sequence[Rule]], parts: Mapping[str, Part], settings: dict[str, Any], rules: list[Rule]
) -> Iterator[tuple[Mapping[str, Part], dict[str, Any], list[Rule]]]:
    """Every way to take a rule of each stage that has one: the parts that are left, the settings, the rules."""
    if not stages:
        yield parts, settings, rules
        return
    fits = False
    for rule in stages[0]:
        numbers: dict[str, Any] = {}
        terms = read_terms(rule.terms) if rule.terms else []
        if rule.terms is None or rule.read_only or not all(_is(term, parts, numbers) for term in terms):
            continue
        asked = {key: setting_value(pattern, numbers) for key, pattern in rule.settings.items()} | dict(rule.also)
        if all(settings.get(key, value) == value for key, value in asked.items()):
            fits = True
            rest = {key: part for key, part in parts.items() if key not in [term.name for term in terms]}
            yield from _covers(stages[1:], rest, settings | asked, [*rules, rule])
    if not fits:
        yield from _covers(stages[1:], parts, settings, rules)


def _is(term: Term, parts: Mapping[str, Part], numbers: dict[str, Any]) -> bool:
    """Whether a term of a rule names one of the parts as it is."""
    part = parts.get(term.name)
    if part is None or set(term.parameters) - {item.name for item in fields(part)}:
        return False
    return all(
        matches(term.parameters.get(item.name, item.default), getattr(part, item.name), numbers)
        for item in fields(part)
    )
