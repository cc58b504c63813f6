"""Every recipe of the zoo as an expression, one a line: what has no published value is given one.

RECIPES=$(python benchmarks/zoo/recipes.py)
"""

from objectives import Name, names

GIVEN = {
    "arm": "alpha=0.5",
    "confidence_shift": "alpha=0.5",
    "drift": "beta=0.1",
    "dro": "beta=0.1",
    "m2po": "budget=0.04",
    "minpro": "low=1,high=4",
    "off_policy_mask": "delta=0.1",
    "second_moment_clip": "budget=0.04",
}
"""Recipe or part -> the parameters that it asks for; the numbers are examples and stand in no paper."""


def expression(name: Name, *settings: str) -> str:
    """A recipe or a part with its settings and with what it asks for."""
    given = [*settings, *([GIVEN[name.name]] if name.asked else [])]
    return f"{name.name}({','.join(given)})" if given else name.name


if __name__ == "__main__":
    print("\n".join(expression(name) for name in names() if name.kind == "recipe"))
