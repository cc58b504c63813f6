"""The names of the zoo as expressions."""

from benchmarks.zoo.recipes import expression
from objectives import names

RECIPES = [expression(name) for name in names() if name.kind == "recipe"]
VARIANTS = [expression(name, f"variant={variant}") for name in names() for variant in name.variants]
PARTS = [expression(name) for name in names() if name.kind == "part"]
