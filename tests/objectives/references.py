"""Every reference and every break: what the files in `methods` say about variants, some mixtures, and mistakes."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

from tests.objectives.breaks import Break
from tests.objectives.reference import Reference


def files(ending: str) -> dict[str, ModuleType]:
    """Recipe -> its module of that kind."""
    found = sorted((Path(__file__).parent / "methods").glob(f"*_{ending}.py"))
    return {
        path.stem.removesuffix(f"_{ending}"): import_module(f"tests.objectives.methods.{path.stem}") for path in found
    }


REFERENCES = files("reference").values()
RECIPES: dict[str, Reference] = {name: method for module in REFERENCES for name, method in module.RECIPES.items()}
COMPOSITIONS: dict[str, Reference] = {
    name: method for module in REFERENCES for name, method in module.COMPOSITIONS.items()
}
BREAKS: dict[str, list[Break]] = {recipe: module.BREAKS for recipe, module in files("breaks").items()}
