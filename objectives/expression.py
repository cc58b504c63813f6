"""The grammar of objectives: `base + addition + addition - removal`, and its canonical form.

expression = term { ("+" | "-") term }
term       = name [ "(" [ parameter { "," parameter } ] ")" ]
parameter  = key "=" value
value      = number | true | false | none | word | ?

A recipe is such an expression too; its `?` stands where no value is published and users of it give one.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from objectives.definitions import module_name
from objectives.errors import ObjectiveError, shown
from objectives.part import REQUIRED, Advantage, Modifier, Part, Ratio, Reward, Stage, Surrogate, Weight, write_term
from objectives.zoo import PARTS, RECIPES, Recipe, in_zoo_order, lookup, make_part

LONGEST = 2000
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.]*(?::[A-Za-z_]\w*)?"
_NUMBER = r"[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?"
_FILE = re.compile(r"\s*(?:[\w./~-]*/)?(\w+)\.py:(\w+)")
_TERM = re.compile(rf"\s*({_NAME})\s*(\()?")
_PARAMETER = re.compile(rf"\s*([A-Za-z_]\w*)\s*=\s*({_NUMBER}|[A-Za-z_]\w*|\?)\s*([,)]?)")
_CONSTANTS = {"true": True, "false": False, "none": None, "?": REQUIRED}
BASE = "grpo"
"""The recipe that an expression starts from which begins with a part."""


@dataclass(frozen=True)
class Term:
    """One term as written."""

    sign: str
    name: str
    parameters: dict[str, Any]


def read_terms(expression: str) -> list[Term]:
    """The terms of an expression as written. Raises ObjectiveError at the first character that does not fit."""
    if len(expression) > LONGEST:
        raise ObjectiveError(f"the objective is {len(expression)} characters long; at most {LONGEST} are read")
    terms, at, sign = [], 0, "+"
    while True:
        match = _TERM.match(expression, at)
        if not match:
            file = _FILE.match(expression, at)
            remedy = f"; write {file[1]}:{file[2]}, and start where {file[1]}.py lies" if file else ""
            raise ObjectiveError(f"{_unreadable(expression, at, 'the name of an objective')}{remedy}")
        at = match.end()
        parameters: dict[str, Any] = {}
        if match.group(2):
            at = _read_parameters(expression, at, match.group(1), parameters)
        terms.append(Term(sign, match.group(1), parameters))
        rest = re.compile(r"\s*([+-]?)").match(expression, at)
        assert rest is not None
        sign, at = rest.group(1), rest.end()
        if not sign:
            if at < len(expression):
                raise _unreadable(expression, at, "'+' or '-'")
            return terms


def _read_parameters(expression: str, at: int, owner: str, parameters: dict[str, Any]) -> int:
    empty = re.compile(r"\s*\)").match(expression, at)
    if empty:
        return empty.end()
    while True:
        match = _PARAMETER.match(expression, at)
        if not match:
            if at == len(expression.rstrip()):
                raise _unclosed(expression, owner)
            raise _unreadable(expression, at, f"key=value of {shown(owner)}")
        key, text, end = match.groups()
        if not end and match.end() == len(expression.rstrip()):
            raise _unclosed(expression, owner)
        if not end:
            raise _unreadable(expression, match.end(), f"',' or ')' after key=value of {shown(owner)}")
        if key in parameters:
            raise ObjectiveError(f"{shown(owner)}: {shown(key)} is given twice")
        parameters[key] = _read_value(text)
        at = match.end()
        if end == ")":
            return at


def _read_value(text: str) -> Any:
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    if re.fullmatch(r"[+-]?\d{1,15}", text):
        return int(text)
    return float(text) if re.fullmatch(_NUMBER, text) else text


def _unreadable(expression: str, at: int, wanted: str) -> ObjectiveError:
    rest = repr(expression[at : at + 20]) if at < len(expression) else "the end"
    return ObjectiveError(f"objective {shown(expression)!r}: expected {wanted} at character {at + 1}, found {rest}")


def _unclosed(expression: str, owner: str) -> ObjectiveError:
    return ObjectiveError(f"objective {shown(expression)!r}: missing ) at the end, of {shown(owner)}(")


class _Clash(ObjectiveError):
    """Terms that, in their order, put each other out of effect."""

    def __init__(self, message: str, left: tuple[Part, ...] = ()) -> None:
        super().__init__(message)
        self.left = left
        """What they come to, if they do not contradict each other."""


def compose(terms: Sequence[Term]) -> tuple[Part, ...]:
    """The parts that an expression names, in canonical order. Raises ObjectiveError where it has no meaning."""
    try:
        return _composed(terms)
    except _Clash as clash:
        others = [(term, *terms[:at], *terms[at + 1 :]) for at, term in enumerate(terms) if at and term.sign == "+"]
        first = dict.fromkeys(order[0].name for order in others if _recipe(order[0]) and _parts_or_none(order))
        remedy = f"begin with {' or '.join(first)}" if first else clash.left and f"write {canonical(clash.left)}"
        raise ObjectiveError(f"{clash}, or {remedy}" if remedy else str(clash)) from None


def _parts_or_none(terms: Sequence[Term]) -> tuple[Part, ...] | None:
    try:
        return _composed(terms)
    except ObjectiveError:
        return None


def _composed(terms: Sequence[Term]) -> tuple[Part, ...]:
    base, *others = _on_a_base(terms)
    start = {part.name: part for part in contributed_parts(base, everything=True)}
    parts = dict(start)
    additions = list({(term.name, *term.parameters.items()): term for term in others if term.sign == "+"}.values())
    removals = [term for term in others if term.sign == "-"]
    for part in _without_conflicts(additions):
        parts = {name: old for name, old in parts.items() if not _replaces(part, old)}
        parts[part.name] = part
    removed = list(dict.fromkeys(name for term in removals for name in _removed_names(term, parts)))
    for term in additions:
        gone = {part.name for part in contributed_parts(term)}
        if gone <= {*removed}:
            signs = "".join(f"-{it.name}" for it in removals if gone & {*_removed_names(it, parts)})
            is_of_base = _parts_or_none([it for it in terms if it != term])
            either = f"{signs} to have it, or +{_typed([term])} to be without it" if is_of_base else "both"
            raise ObjectiveError(f"{shown(term.name)} is both added and removed: leave out {either}")
    for name in removed:
        remove(parts, name)
    unread = [part for part in parts.values() if not _has_effect(part, parts.values())]
    for term in additions:
        contributed = contributed_parts(term)
        idle = [part for part in contributed if part in unread]
        if idle:
            without = "".join(f"-{part.name}" for part in idle)
            if is_part := len(idle) < len(contributed):  # without them something of the base has to be left
                kept = {name: part for name, part in parts.items() if part not in unread}
                _check_base(base, additions, {name: part for name, part in start.items() if name not in removed}, kept)
            remedy = f"add {without}" if is_part else "leave it out"
            what, reader = _by(idle[0], term.name), _reader(idle[0], parts.values()).name
            raise ObjectiveError(f"{what} has no effect on {reader}, which does not read it: {remedy}")
    for part in unread:
        remove(parts, part.name)
    _check_base(base, additions, {name: part for name, part in start.items() if name not in removed}, parts)
    return in_order(parts.values())


def _recipe(term: Term) -> Recipe | None:
    entry = lookup(term.name)
    return entry if isinstance(entry, Recipe) else None


def _on_a_base(terms: Sequence[Term]) -> list[Term]:
    """The terms, behind grpo if they do not begin with a recipe."""
    return [*terms] if _recipe(terms[0]) else [Term("+", BASE, {}), *terms]


def _check_base(base: Term, additions: Sequence[Term], start: Mapping[str, Part], parts: Mapping[str, Part]) -> None:
    """Raises ObjectiveError where additions have put all that makes the base a method out of effect.

    That is its essence, less what was removed by name. A part that was typed itself may set it again.
    """
    recipe = _recipe(base)
    ideas = [name for name in recipe.essential if name in start] if recipe else []
    typed = [term for term in additions if _recipe(term) in (None, recipe)]
    again = {part.name for term in typed for part in contributed_parts(term)}
    if base.name == BASE or not ideas or not additions:
        return
    if not any(name in parts and (name in again or parts[name] == start[name]) for name in ideas):
        for part in parts.values():
            part.check(parts)  # what it says is nearer
        others = " and ".join(dict.fromkeys(term.name for term in additions))
        beside = f"nothing of {base.name} ({', '.join(ideas)}) is left beside {others}"
        raise _Clash(f"{beside}: leave one of them out", in_order(parts.values()))


def unused(terms: Sequence[Term]) -> tuple[str, ...]:
    """What was typed and has no effect, a line each: left out, it changes nothing."""
    composed, left, lines = _composed(terms), _on_a_base(terms), []
    for at in reversed(range(1, len(left))):
        rest = left[:at] + left[at + 1 :]
        if _parts_or_none(rest) == composed:
            already = "there" if left[at].sign == "+" else "gone"
            lines.append(f"{_typed([left[at]])} has no effect: it is {already} already")
            left = rest
    base, *others = left
    for at, term in enumerate(others):
        rest = [term, *others[:at], *others[at + 1 :]]
        if term.sign == "+" and _recipe(term) and _parts_or_none(rest) == composed:
            return (f"{_typed([base])} has no effect: {_typed(rest)} is the same", *reversed(lines))
    return tuple(reversed(lines))


def with_remedy(notice: str, terms: Sequence[Term]) -> str:
    """A notice that ends in "Write -X.": what a term of its own has added is left out, as it cannot be removed."""
    said, _, removals = notice.removesuffix(".").rpartition(" Write ")
    if not (terms and removals.startswith("-")):
        return notice
    additions = [(contributed_parts(term), term.name) for term in _on_a_base(terms)[1:] if term.sign == "+"]
    typed = {f"-{parts[0].qualified_name}": f"leave out +{name}" for parts, name in additions if len(parts) == 1}
    names = removals.split(" or ")
    removed = " or ".join(name for name in names if name not in typed)
    remedy = " or ".join([f"write {removed}"] * bool(removed) + [typed[name] for name in names if name in typed])
    return f"{said} {remedy[0].upper()}{remedy[1:]}."


def _typed(terms: Iterable[Term]) -> str:
    return "".join(term.sign + write_term(term.name, term.parameters) for term in terms).removeprefix("+")


def _replaces(new: Part, old: Part) -> bool:
    """Whether an addition takes the place of a part: of its stage, or of a bound that both set."""
    if isinstance(new, Modifier) and isinstance(old, Modifier):
        return bool(new.sets & old.sets)
    return new.exclusive and old.exclusive and new.stage == old.stage


def _has_effect(part: Part, parts: Iterable[Part]) -> bool:
    """Whether what should heed a reward's shaping, a weight, a ratio or a modifier's bounds does so."""
    reader = _reader(part, parts)
    if isinstance(reader, Advantage):
        return "reward" in reader.needs
    if isinstance(part, Modifier):
        return bool(part.sets & reader.reads_bounds)
    if isinstance(part, Ratio):
        return reader.reads_ratio or part == _fallback(Stage.RATIO)
    return reader.follows_advantage or not isinstance(part, Weight)


def _reader(part: Part, parts: Iterable[Part]) -> Advantage | Surrogate:
    """What a part works through: the advantage for those that shape rewards, the surrogate for all others."""
    if isinstance(part, Reward):
        return next(other for other in parts if isinstance(other, Advantage))
    return next(other for other in parts if isinstance(other, Surrogate))


def _without_conflicts(additions: Iterable[Term]) -> list[Part]:
    """The parts that the additions contribute; an error if two of them want different things."""
    chosen: dict[object, tuple[Part, str]] = {}
    for term in additions:
        for part in contributed_parts(term):
            for slot, what in _slots(part).items():
                other, owner = chosen.setdefault(slot, (part, term.name))
                if other != part:
                    both = f"{_by(other, owner)} and {_by(part, term.name)}"
                    raise _Clash(f"{both} exclude each other ({what}): leave one of them out")
    return list(dict.fromkeys(part for part, _ in chosen.values()))


def _slots(part: Part) -> Mapping[Any, str]:
    """What a part takes that no other may take, and why."""
    if part.exclusive:
        return {part.stage: f"stage {part.stage.name.lower()} holds one part"}
    bounds = part.sets if isinstance(part, Modifier) else ()
    return {part.name: "a part has one setting"} | {
        ("bound", bound): f"one part sets the bound {bound}" for bound in bounds
    }


def contributed_parts(term: Term, everything: bool = False) -> tuple[Part, ...]:
    """The parts that a term adds to what is there; of a recipe its contribution, or `everything`."""
    entry = lookup(term.name)
    if isinstance(entry, Recipe):
        return entry.with_parameters(term.parameters, contribution_only=not everything)
    return (make_part(entry, term.parameters),)


def _by(part: Part, owner: str) -> str:
    return part.term() if owner in (part.name, part.qualified_name) else f"{part.term()} (of {owner})"


def _removed_names(term: Term, parts: dict[str, Part]) -> Sequence[str]:
    if term.parameters:
        raise ObjectiveError(f"-{term.name}: a removal takes no parameters")
    entry = lookup(term.name)
    names = entry.contributed(parts) if isinstance(entry, Recipe) else (entry.name,)
    for name in names:
        if name not in parts:
            of = "" if name == term.name else f" (of {term.name})"
            raise ObjectiveError(
                f"cannot remove {name}{of}: it is not there; the objective has {', '.join(sorted(parts))}"
            )
    return names


def remove(parts: dict[str, Part], name: str) -> None:
    """Removes a part; a stage that holds one falls back to what grpo has there."""
    removed = parts.pop(name)
    if not removed.exclusive:
        return
    fallback = _fallback(removed.stage)
    if fallback.name == name:
        stage = removed.stage.name.lower()
        choices = [part.name for part in PARTS.values() if part.exclusive and part.stage == removed.stage]
        raise ObjectiveError(f"cannot remove {name}: stage {stage} needs one part; add another of {', '.join(choices)}")
    parts[fallback.name] = fallback


def _fallback(stage: Stage) -> Part:
    """What grpo has at a stage that holds one part."""
    return next(part for part in RECIPES[BASE].variants["paper"] if part.exclusive and part.stage == stage)


def in_order(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Stage order; within a stage the exclusive part first, then by name."""
    return tuple(sorted(parts, key=lambda part: (part.stage, not part.exclusive, part.name)))


def canonical(parts: Sequence[Part], typed: Sequence[Term] = ()) -> str:
    """The shortest expression for a composition: a recipe's variant, then additions, then removals.

    Fewest terms and parameters win, then fewest terms, then what was typed, then the order of the zoo. A recipe that
    was not typed lends its name only where it is the whole composition, and shorter; added, `cispo` is a part. If
    nothing was typed, all may: the parts alone decide.
    """
    recipes = [recipe.name for term in typed if term.sign == "+" and (recipe := _recipe(term))]
    named = {BASE, *recipes[:1], *(name for name in recipes if name not in PARTS)}
    nearest = []
    for recipe in _candidates(parts):
        size, count, text = min(
            (_written(parts, recipe, variant) for variant in recipe.variants), key=lambda candidate: candidate[:2]
        )
        is_typed = not typed or recipe.name in named
        if is_typed or not count:
            nearest.append((size, not is_typed, count, recipe.name not in recipes, text))
    return min(nearest, key=lambda candidate: candidate[:4])[4]


def _candidates(parts: Sequence[Part]) -> list[Recipe]:
    """Our own recipes, and those of the modules that parts come from: never what else happens to be imported.

    Only grpo may lend its name where nothing is there that makes the recipe a method.
    """
    modules, names = {module_name(type(part).__module__) for part in parts}, {part.name for part in parts}
    package = __name__.partition(".")[0]
    known = [r for r in in_zoo_order() if r.module.partition(".")[0] == package or r.module in modules]
    return [recipe for recipe in known if recipe.name == BASE or names & {*recipe.essential}]


def _written(parts: Sequence[Part], recipe: Recipe, variant: str) -> tuple[int, int, str]:
    """Number of terms and parameters, of terms, and the expression that starts from a recipe's variant."""
    base = recipe.parts(variant)
    owners = recipe.owners(variant)
    settings = {} if variant == next(iter(recipe.variants)) else {"variant": variant}
    additions: list[str] = []
    for part in parts:
        changes = _changes(base[part.name], part) if part.name in base else None
        if changes is None or not all(owners.get(key) == part.name for key in changes):
            additions.append("+" + part.term())
        else:
            settings.update(changes)
    kept = {part.name for part in parts}
    gone = [part for part in in_order(base.values()) if part.name not in kept]
    dropped = [part for part in gone if not any(_replaces(new, part) for new in parts)]
    removals = [f"-{part.qualified_name}" for part in dropped if _has_effect(part, parts)]
    lost = {part.name for part in dropped} | ({part.name for part in gone} & {*recipe.contribution})
    text = write_term(recipe.qualified_name, settings) + "".join(additions) + "".join(removals)
    count = len(additions) + len(lost)  # a method without what makes it one is no good name
    return count + text.count("="), count, text


def _changes(old: Part, new: Part) -> dict[str, Any]:
    return {
        item.name: getattr(new, item.name) for item in fields(new) if getattr(new, item.name) != getattr(old, item.name)
    }
