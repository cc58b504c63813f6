"""How a method is declared: an expression of what is in the zoo already, for each of its variants."""

import sys
from collections.abc import Mapping

from objectives.definitions import module_name
from objectives.errors import ObjectiveError
from objectives.expression import BASE, compose, contributed_parts, in_order, read_terms
from objectives.part import Part
from objectives.zoo import ALIASES, PARTS, RECIPES, Recipe, check_recipe_names, make_part, origin_of

Composition = str | tuple[Part, ...]


def recipe(
    name: str,
    expression: str = "",
    *,
    paper: str,
    summary: str,
    contribution: tuple[str, ...] = (),
    essence: tuple[str, ...] = (),
    aliases: tuple[str, ...] = (),
    notes: str = "",
    doc: str | None = None,
    variants: Mapping[str, Composition] | None = None,
    **others: str,
) -> None:
    """Puts a method into the zoo.

        recipe("stapo", "justrl+s2t", v1="stapo(q=0.8)", paper="arXiv:2602.15620", summary="...")

    `expression` is the variant `paper`, every further keyword another variant, and the first of them the default, which
    the others may start from. Until it is there, a name that the recipe shares with a part means the part.
    `contribution` names the parts that the method brings to other objectives, if not all that its expression adds to
    its base; `essence` those of them without which nothing of it is left. Its notes are `notes`, or the string behind
    the call. `variants` may have tuples of parts instead of expressions, and `doc` is the older name of `notes`.

    Raises ObjectiveError if its name is taken, or if an expression has no meaning.
    """
    module = module_name(sys._getframe(1).f_globals["__name__"])
    origin = origin_of(name, module)
    check_recipe_names((name, *aliases), module, origin)
    compositions: dict[str, Composition] = {"paper": expression} if expression else {}
    compositions |= {**(variants or {}), **others}
    if not compositions:
        raise ObjectiveError(f"recipe {name}: it has no expression: recipe({name!r}, 'grpo+my_part', ...)")
    RECIPES.pop(name, None)
    try:
        parts: dict[str, tuple[Part, ...]] = {}
        for variant, composition in compositions.items():
            parts[variant] = _parts(name, variant, composition)
            if name not in RECIPES:
                idea = contribution or _added_names(composition)
                written = {variant: text for variant, text in compositions.items() if isinstance(text, str)}
                text = (notes or doc or "").strip()
                RECIPES[name] = Recipe(
                    name, paper, summary, parts, idea, written, essence, aliases, text, module, origin
                )
                for part in (PARTS[name] for name in idea if not PARTS[name].paper):
                    part.paper = paper if module_name(part.__module__) == module else ""
    except ObjectiveError as error:
        RECIPES.pop(name, None)
        raise ObjectiveError(f"recipe {name}: {error}") from None
    ALIASES.update(dict.fromkeys(aliases, name))


def _parts(name: str, variant: str, composition: Composition) -> tuple[Part, ...]:
    """The parts of a variant; what all others start from is made of parts alone."""
    if isinstance(composition, tuple):
        return composition
    if not isinstance(composition, str):
        raise ObjectiveError(f"{variant} is no expression: give it as text, as in 'grpo+my_part'")
    terms = read_terms(composition)
    return in_order(make_part(PARTS[term.name], term.parameters) for term in terms) if name == BASE else compose(terms)


def _added_names(composition: Composition) -> tuple[str, ...]:
    """The parts that an expression adds to its base, by name."""
    terms = read_terms(composition)[1:] if isinstance(composition, str) else ()
    added = [part.name for term in terms if term.sign == "+" for part in contributed_parts(term)]
    return tuple(dict.fromkeys(added))
