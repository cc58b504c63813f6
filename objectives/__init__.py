"""The zoo of reinforcement-learning objectives for LLM reasoning: one algebra, one file per method, torch only.

Reading order: `account` (what was done), `batch` (the data), `part` and `kinds` (the ten stages), `zoo` (the names),
`expression` (the grammar), `plan` and `objective` (prepare, plan, loss), `loop` (the updates of a step), `sums`
(metrics); then `parts`, one file each, and `methods`, one file per paper.

Who uses objectives needs `parse`, `names` and `TokenBatch`; who trains with them `Loop`, and `Sums` for the log. Who
writes a method needs the kinds of parts, `parameter`, `register` and `recipe`.
"""

from objectives import methods, parts  # noqa: F401  (these register themselves)
from objectives.account import Account, Action, Entry
from objectives.batch import (
    OF_TURNS,
    UNREPORTED,
    Prepared,
    Selected,
    TokenBatch,
    Writer,
    concatenated,
    over_scope,
    scope_reads,
    statistic,
    writers,
)
from objectives.definitions import CODE_FOLDERS, definitions_only, end_reading, importable_from, module_name
from objectives.described import described
from objectives.errors import ObjectiveError
from objectives.examples import with_examples
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
from objectives.loop import Loop, Step, Update, derivatives, whole_groups
from objectives.objective import Objective, parse
from objectives.order import drawn, largest, lots, quantile, uniform_of
from objectives.part import ASKED, Part, Stage, parameter
from objectives.plan import Plan
from objectives.provenance import MISSING, PROVENANCE, Provenance
from objectives.recipes import recipe
from objectives.sums import Sums, k3, shares
from objectives.troubles import TROUBLES, Trouble
from objectives.version import VERSION
from objectives.zoo import Name, known, names, register

__all__ = [
    "ASKED",
    "CODE_FOLDERS",
    "MISSING",
    "OF_TURNS",
    "PROVENANCE",
    "TROUBLES",
    "UNREPORTED",
    "VERSION",
    "Account",
    "Action",
    "Advantage",
    "Aggregate",
    "Bounds",
    "Entry",
    "Loop",
    "Mask",
    "Modifier",
    "Name",
    "Objective",
    "ObjectiveError",
    "Part",
    "Penalty",
    "Plan",
    "Prepared",
    "Provenance",
    "Ratio",
    "Reward",
    "Schedule",
    "Select",
    "Selected",
    "Stage",
    "Step",
    "Sums",
    "Surrogate",
    "Term",
    "TokenBatch",
    "Trouble",
    "Update",
    "Weight",
    "Writer",
    "concatenated",
    "definitions_only",
    "derivatives",
    "described",
    "drawn",
    "end_reading",
    "importable_from",
    "k3",
    "known",
    "largest",
    "lots",
    "module_name",
    "names",
    "over_scope",
    "parameter",
    "parse",
    "quantile",
    "read_terms",
    "recipe",
    "register",
    "scope_reads",
    "shares",
    "statistic",
    "uniform_of",
    "whole_groups",
    "with_examples",
    "writers",
]
