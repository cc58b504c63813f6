"""The printed equations, and what each recipe contributes to others, are those of `printed_equations.txt`.

Where one changes on purpose, `python -m tests.objectives.test_printed_equations` writes the file again: read the diff.
"""

from pathlib import Path

from objectives import parse
from objectives.zoo import RECIPES
from tests.objectives.zoo_names import PARTS, VARIANTS
from tests.objectives.zoo_sample import SETTINGS

FILE = Path(__file__).with_name("printed_equations.txt")
EXPRESSIONS = [*VARIANTS, *PARTS, *(f"grpo+{setting}" for setting in SETTINGS)]


def printed() -> str:
    """One block for each expression and recipe: its name, then its statements, one a line."""
    blocks = {expression: parse(expression).equation.split("; ") for expression in EXPRESSIONS}
    blocks |= {
        f"{name} contributes": [*recipe.contribution, f"(essential: {', '.join(recipe.essential)})"]
        for name, recipe in sorted(RECIPES.items())
        if not recipe.origin
    }
    return "\n".join("\n    ".join([title, *statements]) + "\n" for title, statements in blocks.items())


def by_title(text: str) -> dict[str, str]:
    """The blocks by their first lines."""
    return {block.partition("\n")[0]: block.strip() for block in text.split("\n\n")}


def test_printed_equations_change_only_on_purpose() -> None:
    found, kept = by_title(printed()), by_title(FILE.read_text(encoding="utf-8"))
    for title, block in kept.items():
        assert found.get(title) == block
    assert kept.keys() >= {*PARTS}  # a recipe of parts that are there prints nothing new


if __name__ == "__main__":
    FILE.write_text(printed(), encoding="utf-8")
