"""Objectives derived by hand from what papers and pages say of their parts; `test_by_hand` has what this is for."""

from tests.objectives.by_hand import clipped, other_losses
from tests.objectives.by_hand.expressions import DERIVED

__all__ = ["DERIVED", "clipped", "other_losses"]
