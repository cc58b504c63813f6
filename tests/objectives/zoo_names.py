"""The names of the zoo as expressions: what has no published value is given one."""

from objectives import Name, names

GIVEN = {
    "confidence_shift": "alpha=0.5",
    "arm": "alpha=0.5",
    "drift": "beta=0.1",
    "off_policy_mask": "delta=0.1",
    "minpro": "low=1,high=4",
    "dro": "beta=0.1",
    "second_moment_clip": "budget=0.04",
    "m2po": "budget=0.04",
}
"""Recipe or part -> the parameters that it asks for."""


def written(name: Name, *settings: str) -> str:
    """The name with its settings and with what it asks for."""
    given = [*settings, *([GIVEN[name.name]] if name.asked else [])]
    return f"{name.name}({','.join(given)})" if given else name.name


RECIPES = [written(name) for name in names() if name.kind == "recipe"]
VARIANTS = [written(name, f"variant={variant}") for name in names() for variant in name.variants]
PARTS = [written(name) for name in names() if name.kind == "part"]
