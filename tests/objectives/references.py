"""Every reference: what the files in `methods` named after recipes say about their variants and some mixtures."""

from importlib import import_module
from pathlib import Path

from tests.objectives.reference import Reference

MODULES = [
    import_module(f"tests.objectives.methods.{path.stem}")
    for path in sorted((Path(__file__).parent / "methods").glob("*_reference.py"))
]
RECIPES: dict[str, Reference] = {name: method for module in MODULES for name, method in module.RECIPES.items()}
COMPOSITIONS: dict[str, Reference] = {
    name: method for module in MODULES for name, method in module.COMPOSITIONS.items()
}
