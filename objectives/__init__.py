"""The zoo of reinforcement-learning objectives for LLM reasoning: one algebra, one file per method, torch only.

Reading order: `batch` (the data), `part` and `kinds` (the ten stages), `zoo` (the names), `expression` (the grammar),
`plan` and `objective` (prepare, plan, loss); then `parts`, one file each, and `methods`, one file per paper.

Who uses objectives needs `parse`, `names` and `TokenBatch`. Who writes a method needs the kinds of parts, `parameter`,
`register` and `recipe`.
"""

from objectives import methods, parts  # noqa: F401  (these register themselves)
from objectives.batch import TokenBatch, over_scope, scope_reads, statistic
from objectives.described import described
from objectives.errors import ObjectiveError
from objectives.expression import Term, read_terms
from objectives.kinds import (
    Advantage,
    Aggregate,
    Bounds,
    Mask,
    Modifier,
    Penalty,
    Ratio,
    Reward,
    Schedule,
    Select,
    Surrogate,
    Weight,
)
from objectives.objective import Objective, parse
from objectives.order import drawn, largest, quantile
from objectives.part import ASKED, Part, Stage, parameter
from objectives.plan import Plan
from objectives.zoo import Name, names, recipe, register

__all__ = [
    "ASKED",
    "Advantage",
    "Aggregate",
    "Bounds",
    "Mask",
    "Modifier",
    "Name",
    "Objective",
    "ObjectiveError",
    "Part",
    "Penalty",
    "Plan",
    "Ratio",
    "Reward",
    "Schedule",
    "Select",
    "Stage",
    "Surrogate",
    "Term",
    "TokenBatch",
    "Weight",
    "described",
    "drawn",
    "largest",
    "names",
    "over_scope",
    "parameter",
    "parse",
    "quantile",
    "read_terms",
    "recipe",
    "register",
    "scope_reads",
    "statistic",
]
