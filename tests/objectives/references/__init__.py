"""The second writing of every method, by stage: expression -> its reference."""

from tests.objectives.references import (
    baselines,
    correctness,
    grpo,
    off_policy,
    sequence_level,
    teachers_and_turns,
    token_selection,
    token_weights,
    trust_regions,
    whole_groups,
)
from tests.objectives.references.stages import Pass, Reference, reference

__all__ = ["REFERENCES", "Pass", "Reference", "reference"]

FAMILIES = (
    baselines,
    correctness,
    grpo,
    off_policy,
    sequence_level,
    teachers_and_turns,
    token_selection,
    token_weights,
    trust_regions,
    whole_groups,
)
REFERENCES: dict[str, Reference] = {name: it for family in FAMILIES for name, it in family.REFERENCES.items()}
"""Of every variant of every recipe, and of some mixtures."""
