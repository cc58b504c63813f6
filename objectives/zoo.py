"""The names of the zoo: parts, and recipes made of them.

Modules outside this package join by registering theirs. An expression reaches them as `module:name`, or as `name` alone
if an installed package announces it: an entry point of that name in the group `objectives`, whose value is the module.
"""

import difflib
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache, cached_property
from typing import Any, TypeVar

from objectives.definitions import import_definitions, module_name, strings_behind
from objectives.errors import ObjectiveError, shown
from objectives.failure_modes import FAILURE_MODES
from objectives.part import REQUIRED, Part, Stage, write_term

PartClass = TypeVar("PartClass", bound=type[Part])


@dataclass(frozen=True)
class Recipe:
    """A published method: complete compositions of parts (its variants), and the parts that are its idea."""

    name: str
    paper: str
    summary: str
    variants: Mapping[str, tuple[Part, ...]]
    """The default first."""
    contribution: tuple[str, ...]
    """Names of the parts that it brings to another objective; a variant contributes those that it has."""
    expressions: Mapping[str, str] = field(default_factory=dict)
    """Variant -> how it was declared."""
    essence: tuple[str, ...] = ()
    """Parts that make the method: at least one must be left. If empty, these are all parts of the contribution."""
    aliases: tuple[str, ...] = ()
    notes: str = ""
    """Its own words; if there are none, the string behind its declaration."""
    module: str = ""
    """Where it was registered."""
    origin: str = ""
    """The module that an expression names before it; see `Part.origin`."""

    @property
    def qualified_name(self) -> str:
        """Its name in expressions."""
        return f"{self.origin}:{self.name}" if self.origin else self.name

    @property
    def essential(self) -> tuple[str, ...]:
        """Names of the parts. At least one must be left."""
        return self.essence or self.contribution

    @cached_property
    def doc(self) -> str:
        """Its own words: equations, what is open, deviations, variants."""
        return self.notes or strings_behind(self.module, "recipe").get(self.name, "")

    def parts(self, variant: str) -> dict[str, Part]:
        """The parts of a variant by name."""
        if variant not in self.variants:
            raise ObjectiveError(f"{self.name}: variant={shown(variant)} is not one of {', '.join(self.variants)}")
        return {part.name: part for part in self.variants[variant]}

    def contributed(self, there: Mapping[str, Part]) -> tuple[str, ...]:
        """The contribution of the variant whose contribution is there; of the first if none is."""
        ideas = [tuple(name for name in self.contribution if name in self.parts(variant)) for variant in self.variants]
        return next((names for names in ideas if names and {*names} <= there.keys()), ideas[0])

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
        names = tuple(name for name in self.contribution if name in parts) if contribution_only else tuple(parts)
        owners = self.owners(variant, names)
        settings: dict[str, dict[str, Any]] = {name: {} for name in names}
        for key, value in parameters.items():
            if key not in owners:
                holders = [name for name in names if key in {item.name for item in fields(parts[name])}]
                if ideas := [name for name in holders if name in self.contribution] or holders:
                    written = "+".join([self.name, *(write_term(name, {key: value}) for name in ideas)])
                    raise ObjectiveError(
                        f"{self.name}: {' and '.join(ideas)} each have {key}; write {shown(written, 200)}"
                    )
                raise unknown_parameter(self.name, key, ["variant", *owners])
            settings[owners[key]][key] = value
        return tuple(changed(parts[name], settings[name]) for name in names)


PARTS: dict[str, type[Part]] = {}
RECIPES: dict[str, Recipe] = {}
ALIASES: dict[str, str] = {}


def in_zoo_order() -> list[Recipe]:
    """Our own recipes by the date of their papers, then those of other modules."""
    return sorted(RECIPES.values(), key=lambda recipe: (recipe.origin, recipe.paper, recipe.name))


def register(part: PartClass) -> PartClass:
    """Class decorator: makes a part a frozen dataclass, unless it is one, and puts it into the zoo under its name.

    Raises ObjectiveError if another part has that name, or if the class is not a part with defaults.
    """
    _check_kind(part)
    part.failure_modes = vars(part).get("troubles", part.failure_modes)  # its older name
    part.paper = vars(part).get("paper", "")
    if "__dataclass_fields__" not in vars(part):
        dataclass(frozen=True)(part)  # the class itself
    _check_class(part)
    other, module = PARTS.get(part.name), module_name(part.__module__)
    if other is not None and (module_name(other.__module__), other.__qualname__) != (module, part.__qualname__):
        raise _twice(part, other)
    taken = RECIPES.get(ALIASES.get(part.name, part.name))
    if taken is not None and not taken.origin and origin_of(part.name, module):
        raise ObjectiveError(f"{module} registers a part named {part.name}, which is a recipe of {taken.module}")
    part.origin = origin_of(part.name, module)
    PARTS[part.name] = part
    return part


def _twice(part: type[Part], other: type[Part]) -> ObjectiveError:
    """Two modules have a part of one name; perhaps they are one file, which a part and a key name differently."""
    modules = f"{module_name(part.__module__)} and {module_name(other.__module__)}"
    file, other_file = (getattr(sys.modules.get(kind.__module__), "__file__", None) for kind in (part, other))
    is_one_file = file is not None and file == other_file
    remedy = f": both are {file}; put the part into a file of its own" if is_one_file else ""
    return ObjectiveError(f"{modules} both register a part named {part.name}{remedy}")


def _check_kind(part: type[Part]) -> None:
    where = f"{part.__module__}.{part.__qualname__}"
    if not isinstance(part, type) or not any(
        base.__module__ == Part.__module__ for base in part.__mro__ if base != Part
    ):
        raise ObjectiveError(f"{where} is no part: derive it from Mask, Weight or another kind of `objectives`")
    named = next((base for base in part.__mro__ if "name" in vars(base)), None)
    if named is not None and (named is part or named not in PARTS.values()):  # a part has its name for itself
        part.name = vars(named)["name"]
    else:
        part.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", part.__name__).lower()
    if not isinstance(part.name, str) or not part.name.isidentifier():
        raise ObjectiveError(f"{where}: its name is not a word that expressions can use")


def _check_class(part: type[Part]) -> None:
    where = f"{part.__module__}.{part.__qualname__}"
    if part.stage <= Stage.ADVANTAGE and part.control is not Part.control:
        raise ObjectiveError(f"{where}: a part of stage {part.stage.name.lower()} comes before controllers are asked")
    for tag in part.failure_modes:
        if tag not in FAILURE_MODES:
            near = _nearest(tag, list(FAILURE_MODES))
            raise ObjectiveError(f"{where}: no failure mode is called {shown(tag)!r}; {near}")
    for item in fields(part):
        if item.default is MISSING:
            raise ObjectiveError(f"{where}: the parameter {item.name} needs a default")


def check_recipe_names(names: Iterable[str], module: str, origin: str) -> None:
    """Raises ObjectiveError if a module that registers a recipe of these names takes them from another."""
    for name in names:
        other = RECIPES.get(ALIASES.get(name, name))
        if other is not None and other.module != module:
            raise ObjectiveError(f"{module} and {other.module} both register a recipe named {name}")
        part = PARTS.get(name)
        if part is not None and not part.origin and origin:
            raise ObjectiveError(f"{module} registers a recipe named {name}, a part of {part.__module__}")


def lookup(written: str) -> Recipe | type[Part]:
    """The recipe or part of that name (or alias, or `module:name`); where both exist, the recipe.

    Raises ObjectiveError with the nearest names if there is none, or if its module cannot be imported.
    """
    module, _, name = written.rpartition(":")
    if module:
        _import(module, written)
    elif _find(name) is None and name in _announced():
        _import(_announced()[name], written)
    entry = _find(name)
    if entry is not None and (not module or _belongs(entry, module)):
        return entry
    if module:
        names = [name for name, entry in (PARTS | RECIPES).items() if _belongs(entry, module)]
        raise ObjectiveError(
            f"{shown(module)} registers no part or recipe named {shown(name)!r}; "
            + (f"it has {', '.join(names)}" if names else "decorate the part with @register")
        )
    hint = f" (one of your own is written with its module, my_module:{shown(name)})" if name.isidentifier() else ""
    raise ObjectiveError(
        f"unknown objective {shown(name)!r}; "
        f"{_nearest(name, known(), [recipe.name for recipe in in_zoo_order()])}{hint}"
    )


def is_registered(written: str) -> bool:
    """Whether `lookup` finds that name without importing anything."""
    module, _, name = written.rpartition(":")
    entry = _find(name)
    return entry is not None and (not module or _belongs(entry, module))


def _find(name: str) -> Recipe | type[Part] | None:
    name = ALIASES.get(name, name)
    return RECIPES.get(name) or PARTS.get(name)


def known() -> list[str]:
    """Every name that an expression may use without a module."""
    return list(dict.fromkeys([*RECIPES, *ALIASES, *PARTS, *_announced()]))


@cache
def _announced() -> dict[str, str]:
    """Name -> module of the parts and recipes that installed packages announce."""
    from importlib.metadata import entry_points  # takes a sixth of the time that the zoo takes to import

    return {point.name: point.value.partition(":")[0].strip() for point in entry_points(group="objectives")}


def origin_of(name: str, module: str) -> str:
    """What an expression must put before a name: nothing for our own, announced and interactively defined ones."""
    if module == "__main__" or module.partition(".")[0] == __package__ or _announced().get(name) == module:
        return ""
    return module


def _belongs(entry: Recipe | type[Part], module: str) -> bool:
    owner = entry.module if isinstance(entry, Recipe) else module_name(entry.__module__)
    return f"{owner}.".startswith(f"{module}.")


def _import(module: str, written: str) -> None:
    try:
        import_definitions(module)
    except ObjectiveError:
        raise
    except (Exception, SystemExit) as error:  # whatever a user's module may raise
        reason = shown(" ".join(f"{type(error).__name__}: {error}".split()), 200)
        is_missing = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
        remedy = (
            f"; go to the folder where {shown(module)} lies, or put PYTHONPATH=FOLDER before the command (a run keeps "
            f"a copy in its folder source)"
        )
        raise ObjectiveError(
            f"cannot import {shown(module)} (of {shown(written)!r}): {reason}{remedy if is_missing else ''}"
        ) from None


def make_part(part: type[Part], parameters: Mapping[str, Any]) -> Part:
    """A part with the given parameters; unknown ones are errors."""
    parameter_names = [item.name for item in fields(part)]
    for key in parameters:
        if key not in parameter_names:
            raise unknown_parameter(part.name, key, parameter_names)
    return part(**parameters)


def changed(part: Part, parameters: Mapping[str, Any]) -> Part:
    """The part with some parameters replaced."""
    return type(part)(**{item.name: parameters.get(item.name, getattr(part, item.name)) for item in fields(part)})


def unknown_parameter(owner: str, key: str, known: list[str]) -> ObjectiveError:
    """The error for a parameter that `owner` does not have."""
    return ObjectiveError(
        f"{owner} has no parameter {shown(key)!r}; " + (_nearest(key, known) if known else "it has none")
    )


_EXAMPLES = 12
"""How many recipes an error names."""


def _nearest(name: str, known: list[str], examples: list[str] | None = None) -> str:
    plain = {entry.lower(): entry for entry in known}
    low = shown(name).lower()
    close = [
        plain[match] for match in ([low] if low in plain else difflib.get_close_matches(low, plain, n=3, cutoff=0.5))
    ]
    if close:
        return f"did you mean {' or '.join(close)}?"
    if not examples:
        return f"known: {', '.join(sorted(known))}"
    more = f", {len(examples) - _EXAMPLES} more recipes" if len(examples) > _EXAMPLES else ""
    return f"known: {', '.join(examples[:_EXAMPLES])}{more}, and parts"


@dataclass(frozen=True)
class Name:
    """An entry of the zoo."""

    name: str
    kind: str
    """`recipe` or `part`."""
    stage: str
    """Of a recipe, that of the parts which no other one contributes; `several` if they are of more than one."""
    paper: str
    summary: str
    variants: tuple[str, ...] = ()
    expressions: tuple[str, ...] = ()
    """What each variant was declared as; empty for one that was given as parts."""
    aliases: tuple[str, ...] = ()
    doc: str = ""
    """A recipe's own words: equations, what is open, deviations, variants."""
    required_parameters: tuple[str, ...] = ()
    """Parameters that have to be given, because no value of theirs is published."""
    examples: tuple[str, ...] = ()
    """Each of these with a value that is no paper's, as `name=value`."""
    failure_modes: tuple[str, ...] = ()
    """Tags of `FAILURE_MODES` that it addresses; a recipe has those of the parts that are its idea."""


def names() -> list[Name]:
    """Every recipe, then every part in stage order; modules that installed packages announce are imported."""
    for module in sorted(set(_announced().values())):
        _import(module, module)
    recipes = [
        Name(
            entry.qualified_name,
            "recipe",
            _family(entry),
            entry.paper,
            entry.summary,
            tuple(entry.variants),
            tuple(entry.expressions.get(variant, "") for variant in entry.variants),
            entry.aliases,
            entry.doc,
            *_required(next(iter(entry.variants.values()))),
            tuple(dict.fromkeys(tag for name in entry.contribution for tag in PARTS[name].failure_modes)),
        )
        for entry in in_zoo_order()
    ]
    parts = [
        Name(
            f"{part.origin}:{part.name}" if part.origin else part.name,
            "part",
            part.stage.name.lower(),
            part.paper,
            (part.__doc__ or "").split("\n")[0],
            required_parameters=tuple(item.name for item in fields(part) if item.default is REQUIRED),
            examples=tuple(part.example(item.name) for item in fields(part) if item.default is REQUIRED),
            failure_modes=part.failure_modes,
        )
        for part in sorted(PARTS.values(), key=lambda part: (part.stage, not part.exclusive, part.name))
    ]
    return recipes + parts


def _required(parts: Iterable[Part]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The parameters that have to be given, and examples of them."""
    required = [(name, part.example(name)) for part in parts for name in part.required_parameters]
    return tuple(name for name, _ in required), tuple(example for _, example in required)


def with_examples(name: Name, *settings: str) -> str:
    """A recipe or a part as an expression, with its settings and with examples of what it asks for."""
    given = [*settings, *name.examples]
    return f"{name.name}({','.join(given)})" if given else name.name


def _family(entry: Recipe) -> str:
    """The stage that a recipe is about."""
    elsewhere = {name for other in RECIPES.values() if other.name != entry.name for name in other.contribution}
    distinct = [name for name in entry.contribution if name not in elsewhere] or entry.contribution
    stages = {PARTS[name].stage.name.lower() for name in distinct}
    return stages.pop() if len(stages) == 1 else "several"
