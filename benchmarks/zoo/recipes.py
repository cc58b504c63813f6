"""Every recipe of the zoo as an expression, one a line: what has no published value is given one.

RECIPES=$(python benchmarks/zoo/recipes.py)
"""

from objectives import Name, names

GIVEN = {"arm": "alpha=0.5", "m2po": "budget=0.04", "minpro": "low=1,high=4", "dro": "beta=0.1"}
"""Recipe -> the parameters that it asks for."""


def expression(name: Name) -> str:
    """A recipe with what it asks for."""
    return f"{name.name}({GIVEN[name.name]})" if name.asked else name.name


if __name__ == "__main__":
    print("\n".join(expression(name) for name in names() if name.kind == "recipe"))
