"""The names of the zoo: parts, and recipes made of them."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from objectives.errors import ObjectiveError, shown
from objectives.part import Part

PartClass = TypeVar("PartClass", bound=type[Part])


@dataclass(frozen=True)
class Recipe:
    """A published method: complete compositions of parts (its variants), and the parts that are its idea."""

    name: str
    paper: str
    summary: str
    variants: Mapping[str, tuple[Part, ...]]
    contribution: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    doc: str = ""

    def parts(self, variant: str) -> dict[str, Part]:
        """The parts of a variant by name."""
        if variant not in self.variants:
            raise ObjectiveError(f"{self.name}: variant={shown(variant)} is not one of {', '.join(self.variants)}")
        return {part.name: part for part in self.variants[variant]}

    def owners(self, variant: str, names: tuple[str, ...] | None = None) -> dict[str, str]:
        """Parameter -> name of the part it sets, over the parts `names` (default: all).

        Where several parts share a parameter's name, it belongs to the one in the contribution; a name that is still
        ambiguous belongs to none and is set by adding the part itself.
        """
        parts = self.parts(variant)
        owners: dict[str, list[str]] = {}
        for name in names or tuple(parts):
            for item in fields(parts[name]):
                owners.setdefault(item.name, []).append(name)
        chosen = {}
        for key, candidates in owners.items():
            ideas = [name for name in candidates if name in self.contribution] or candidates
            if len(ideas) == 1:
                chosen[key] = ideas[0]
        return chosen

    def with_parameters(self, given: Mapping[str, Any], contribution_only: bool) -> tuple[Part, ...]:
        """The parts of `name(key=value, ...)`: all of them, or the contribution only."""
        parameters = dict(given)
        variant = str(parameters.pop("variant", next(iter(self.variants))))
        parts = self.parts(variant)
        names = self.contribution if contribution_only else tuple(parts)
        owners = self.owners(variant, names)
        settings: dict[str, dict[str, Any]] = {name: {} for name in names}
        for key, value in parameters.items():
            if key not in owners:
                raise unknown_parameter(self.name, key, ["variant", *owners])
            settings[owners[key]][key] = value
        return tuple(changed(parts[name], settings[name]) for name in names)


PARTS: dict[str, type[Part]] = {}
RECIPES: dict[str, Recipe] = {}
ALIASES: dict[str, str] = {}


def register(part: PartClass) -> PartClass:
    """Class decorator: puts a part into the zoo under its name."""
    PARTS[part.name] = part
    return part


def recipe(
    name: str,
    *,
    paper: str,
    summary: str,
    variants: Mapping[str, tuple[Part, ...]],
    contribution: tuple[str, ...],
    aliases: tuple[str, ...] = (),
    doc: str | None = None,
) -> None:
    """Puts a recipe into the zoo. The first variant is the default."""
    RECIPES[name] = Recipe(name, paper, summary, variants, contribution, aliases, (doc or "").strip())
    ALIASES.update(dict.fromkeys(aliases, name))


def lookup(name: str) -> Recipe | type[Part]:
    """The recipe or part of that name (or alias); where both exist, the recipe.

    Raises ObjectiveError with the nearest names if there is none.
    """
    name = ALIASES.get(name, name)
    if name in RECIPES:
        return RECIPES[name]
    if name in PARTS:
        return PARTS[name]
    known = list(dict.fromkeys([*RECIPES, *ALIASES, *PARTS]))
    raise ObjectiveError(f"unknown objective {shown(name)!r}; {_nearest(name, known)}")


def make_part(part: type[Part], parameters: Mapping[str, Any]) -> Part:
    """A part with the given parameters; unknown ones are errors."""
    known = [item.name for item in fields(part)]
    for key in parameters:
        if key not in known:
            raise unknown_parameter(part.name, key, known)
    return part(**parameters)


def changed(part: Part, parameters: Mapping[str, Any]) -> Part:
    """The part with some parameters replaced."""
    return type(part)(**{item.name: parameters.get(item.name, getattr(part, item.name)) for item in fields(part)})


def unknown_parameter(owner: str, key: str, known: list[str]) -> ObjectiveError:
    """The error for a parameter that `owner` does not have."""
    return ObjectiveError(
        f"{owner} has no parameter {shown(key)!r}; " + (_nearest(key, known) if known else "it has none")
    )


def _nearest(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(shown(name), known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(sorted(known))}"


@dataclass(frozen=True)
class Name:
    """An entry of the zoo."""

    name: str
    kind: str
    """`recipe` or `part`."""
    stage: str
    paper: str
    summary: str
    variants: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


def names() -> list[Name]:
    """Every recipe, then every part in stage order."""
    recipes = [
        Name(entry.name, "recipe", "", entry.paper, entry.summary, tuple(entry.variants), entry.aliases)
        for entry in RECIPES.values()
    ]
    parts = [
        Name(part.name, "part", part.stage.name.lower(), part.paper, (part.__doc__ or "").split("\n")[0])
        for part in sorted(PARTS.values(), key=lambda part: part.stage)
    ]
    return recipes + parts
