"""Every recipe of the zoo as an expression, one a line, but for those that read turns.

What has no published value is given one.

RECIPES=$(python benchmarks/zoo/recipes.py)
"""

from objectives import OF_TURNS, names, parse, with_examples

if __name__ == "__main__":
    written = [with_examples(name) for name in names() if name.kind == "recipe"]
    print("\n".join(recipe for recipe in written if not parse(recipe).needs & (OF_TURNS | {"writer"})))
