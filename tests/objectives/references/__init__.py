"""The second writing of every method, by stage: expression -> its reference."""

from tests.objectives.references import advantages, grpo, mixtures, responses, teachers_and_turns, tokens, trust_regions
from tests.objectives.references.stages import Pass, Reference, reference

__all__ = ["REFERENCES", "Pass", "Reference", "reference"]

FAMILIES = (grpo, advantages, trust_regions, tokens, responses, teachers_and_turns, mixtures)
REFERENCES: dict[str, Reference] = {name: it for family in FAMILIES for name, it in family.REFERENCES.items()}
"""Of every variant of every recipe, and of some mixtures."""
