"""The zoo of reinforcement-learning objectives for LLM reasoning: one algebra, a method on one line, torch only.

Reading order: `account` (what was done), `batch` (the data), `part` and `kinds` (the ten stages), `zoo` (the names),
`expression` (the grammar), `plan` and `objective` (prepare, plan, loss), `loop` (the updates of a step), `sums`
(metrics); then `parts` by stage, and the chapters of `methods`.

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
from objectives.errors import ObjectiveError
from objectives.expression import Term, read_terms
from objectives.failure_modes import FAILURE_MODES
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
from objectives.recipes import recipe
from objectives.sums import Sums, k3, shares
from objectives.version import VERSION
from objectives.zoo import Name, known, names, register, with_examples

__all__ = [
    "ASKED",
    "CODE_FOLDERS",
    "FAILURE_MODES",
    "OF_TURNS",
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
    "Update",
    "Weight",
    "Writer",
    "concatenated",
    "definitions_only",
    "derivatives",
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

_MOVED = {
    "MISSING": "rlzoo.report.provenance.MISSING",
    "PROVENANCE": "rlzoo.report.provenance.PROVENANCE",
    "Provenance": "rlzoo.report.provenance.Provenance",
    "described": "rlzoo.report.description.describe",
}
"""Names that earlier versions exported -> where they are now."""


def __getattr__(name: str) -> object:
    if name in _MOVED:
        raise ImportError(f"objectives.{name} has moved: it is {_MOVED[name]}")
    raise AttributeError(f"module 'objectives' has no attribute {name!r}")
