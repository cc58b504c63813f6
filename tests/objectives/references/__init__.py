"""The second writing of every part, and what it makes of every recipe, variant and line of `referenced.txt`."""

from pathlib import Path

from tests.objectives.references import advantages, losses
from tests.objectives.references.stages import FUNCTIONS, Pass, Reference, composed, reference
from tests.objectives.zoo_names import RECIPES, VARIANTS

__all__ = ["FUNCTIONS", "REFERENCES", "Pass", "Reference", "advantages", "composed", "losses", "reference"]

_LINES = Path(__file__).parents[1].joinpath("referenced.txt").read_text(encoding="utf-8").splitlines()
REFERENCES: dict[str, Reference] = {
    text: composed(text)
    for text in (*RECIPES, *(it for it in VARIANTS if "variant=paper" not in it), *_LINES)
    if not text.startswith("#")
}
