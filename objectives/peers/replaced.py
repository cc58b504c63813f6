"""What an adapter says of settings of the library that it is in: the parts that they would be, or why there are none.

The settings have no effect beside an objective. Each is translated with the number that the user gave it, as
`rlzoo objectives --from` would, and what it changes there is written into the user's own objective.
"""

from collections.abc import Mapping
from typing import Any

from objectives import Modifier, Objective, ObjectiveError, Part, Schedule, Surrogate, parse, read_terms
from objectives.expression import in_order
from objectives.part import write_term
from objectives.parts.losses import Clip, ClipHigher
from objectives.peers.table import PeerTable
from objectives.peers.translate import Held, composition, nearest_settings, rules_held, settings_read
from objectives.zoo import make_part


def refuse_replaced(
    table: PeerTable,
    objective: Objective,
    given: Mapping[str, Any],
    usual: Mapping[str, Any],
    decided: Mapping[str, Any],
) -> None:
    """Raises ObjectiveError for settings that have no effect beside an objective, with what to write instead.

    `given` are the values of the user's configuration and `usual` the library's own, of settings that the table knows.
    `decided` are those that the adapter sets itself, or leaves to the library: they may be given as they are decided.
    """
    changed = {key: value for key, value in given.items() if value not in (usual[key], decided.get(key, usual[key]))}
    if changed:
        raise ObjectiveError(_refusal(table, objective, changed, decided))


def _refusal(table: PeerTable, objective: Objective, changed: Mapping[str, Any], decided: Mapping[str, Any]) -> str:
    near = nearest_settings(table, objective)[1]
    choices = {key: value for key, value in near.items() if isinstance(value, str)}  # its loss, its mean, its level
    usual = {**table.defaults, **decided, **choices}
    before, after = rules_held(table, usual), rules_held(table, {**usual, **changed})
    for held in after:
        impossible = {key: changed[key] for key in held.rule.settings if key in changed}
        if held.rule.terms is None and impossible:
            return f"{_idle(impossible, objective)}, and nothing here does that: {held.rule.difference}; leave that out"
    idle = _idle(changed, objective)
    if not changed.keys() & settings_read(table, {**usual, **changed}, after):
        return f"{idle}, nor in {table.name} beside its other settings: leave that out"
    old, new = _parts(before), _parts(after)
    rivals = _rivals(table, {name: part for name, part in new.items() if old.get(name) != part})
    old |= {part.name: part for part in objective.parts if part.name in rivals}
    try:
        remedy = rewritten(objective, old, new)
    except ObjectiveError as error:
        terms = "+".join(part.term() for name, part in new.items() if old.get(name) != part)
        return f"{idle}: in {table.name} that is {terms}, but {error}; leave that out"
    if remedy is None:
        return f"{idle}, which does that already: leave that out"
    known = {held.rule.difference for held in before}
    otherwise = "; ".join(held.rule.difference for held in after if held.rule.difference not in known)
    differs = f"; {table.name} differs: {otherwise}" if otherwise else ""
    return f"{idle}: leave that out and write the part into the objective, as in '{remedy}'{differs}"


def _idle(settings: Mapping[str, Any], objective: Objective) -> str:
    named = " and ".join(f"{key}={value}" for key, value in settings.items())
    return f"{named} {'has' if len(settings) == 1 else 'have'} no effect beside objective={objective}"


def _parts(rules: list[Held]) -> dict[str, Part]:
    """What rules compose, both bounds of a clip written out."""
    parts = {part.name: part for part in parse(composition(rules)).parts}
    return {part.name: part for part in in_order({**_upper_bound(parts), **parts}.values())}


def _rivals(table: PeerTable, parts: Mapping[str, Part]) -> set[str]:
    """Parts that a setting of the library has in place of one of these: of two divergences it knows one at a time."""
    rivals = set()
    for rules in table.stages.values():
        alone = [terms[0].name for terms in (read_terms(rule.terms) for rule in rules if rule.terms) if len(terms) == 1]
        if parts.keys() & alone:
            rivals |= set(alone) - parts.keys()
    return rivals


def _upper_bound(parts: Mapping[str, Part]) -> dict[str, Part]:
    """What a clip bounds above, unless a part of its own says so."""
    clip = parts.get("clip")
    return {"clip_higher": make_part(ClipHigher, {"high": clip.low})} if isinstance(clip, Clip) else {}


def rewritten(objective: Objective, old: Mapping[str, Part], new: Mapping[str, Part]) -> str | None:
    """The objective's expression with what the `new` parts have and the `old` do not; None if it has that already.

    Raises ObjectiveError if it cannot have that.
    """
    parts = {part.name: part for part in objective.parts}
    changed = {name: part for name, part in new.items() if old.get(name) != part}
    for part in changed.values():
        instead = [other for other in objective.parts if part.exclusive and other.stage == part.stage]
        settled = part.name in old or (isinstance(part, Schedule) and objective.pass_count > 1)
        if part.name not in parts and instead and settled:  # another number is no reason to exchange a part
            raise ObjectiveError(f"the objective has {instead[0].term()} in its place")
    exchanged = {part.stage for part in changed.values() if part.exclusive}
    kept = {
        name: part
        for name, part in {**_upper_bound(parts), **parts}.items()
        if not (part.exclusive and part.stage in exchanged) and (part.exclusive or name in new or name not in old)
    }
    surrogate = next(part for part in {**kept, **changed}.values() if isinstance(part, Surrogate))
    unread = {
        name for name, part in kept.items() if isinstance(part, Modifier) and not part.sets & surrogate.reads_bounds
    }
    wanted = {name: part for name, part in {**kept, **changed}.items() if name in changed or name not in unread}
    redundant = _upper_bound(wanted) or _upper_bound(parts)
    if "clip_higher" not in parts and wanted.get("clip_higher") == redundant.get("clip_higher"):
        wanted.pop("clip_higher", None)
    return _written(objective, wanted)


def _written(objective: Objective, wanted: Mapping[str, Part]) -> str | None:
    """The parts that are wanted as an expression that starts as the objective's does; None if it has no others."""
    base = read_terms(str(objective))[0]
    text = write_term(base.name, base.parameters)
    try:
        there = parse(text).parts
    except ObjectiveError:  # a part that the objective leaves out asks for a number
        text, there = "grpo", parse("grpo").parts
    text += "".join(f"+{part.term()}" for part in in_order(wanted.values()) if part not in there)
    text += "".join(f"-{part.name}" for part in parse(text).parts if not part.exclusive and part.name not in wanted)
    return text if parse(text) != objective else None
