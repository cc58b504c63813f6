"""Every recipe of the zoo as an expression, one a line: what has no published value is given one.

RECIPES=$(python benchmarks/zoo/recipes.py)
"""

from objectives import names, with_examples

if __name__ == "__main__":
    print("\n".join(with_examples(name) for name in names() if name.kind == "recipe"))
