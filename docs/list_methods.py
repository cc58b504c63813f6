"""The table of docs/methods.md, made from what the methods declare: python docs/list_methods.py writes it."""

import sys
from pathlib import Path

PAGE = Path(__file__).with_name("methods.md")
sys.path[:0] = [str(PAGE.parents[1])]

from objectives import methods  # noqa: E402
from objectives.zoo import RECIPES, Recipe  # noqa: E402

START = "<!-- made by docs/list_methods.py -->\n"


def table() -> str:
    """Each chapter of the zoo with its methods: what each is, what it does, and its paper."""
    chapters = {name: module for name, module in vars(methods).items() if hasattr(module, "recipe")}
    pieces = []
    for name, module in chapters.items():
        here = [recipe for recipe in RECIPES.values() if recipe.module == f"objectives.methods.{name}"]
        title, _, _ = (module.__doc__ or "").partition("\n")
        declared = f"Declared in [{name}.py](../objectives/methods/{name}.py)."
        rows = ["| method | is | what it does |", "|---|---|---|", *map(_row, here)]
        pieces.append("\n\n".join([f"## {title.removesuffix('.')}", declared, "\n".join(rows)]))
    return "\n\n".join(pieces) + "\n"


def _row(recipe: Recipe) -> str:
    expression, summary = next(iter(recipe.expressions.values())), recipe.summary.replace("|", "\\|")
    return f"| {_link(recipe)} | `{expression}` | {summary} |"


def _link(recipe: Recipe) -> str:
    kind, _, number = recipe.paper.partition(":")
    site = {"arXiv": "https://arxiv.org/abs/", "doi": "https://doi.org/"}.get(kind)
    return f"[`{recipe.name}`]({site}{number})" if site else f"`{recipe.name}` ({recipe.paper})"


def page() -> str:
    """The page with the table of today; what stands before it is written by hand."""
    return PAGE.read_text(encoding="utf-8").partition(START)[0] + START + "\n" + table()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
