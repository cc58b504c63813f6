"""The zoo of reinforcement-learning objectives for LLM reasoning: one algebra, a method on one line, torch only.

Reading order: `batch` (the data), `part` (the ten stages), `zoo` (the names), `expression` (the grammar), `objective`
(prepare, plan, loss), `loop` (the updates of a step, and its metrics), `trace` (what parts did);
then `parts` by stage, and the chapters of `methods`.

To use objectives: `parse`, `names` and `TokenBatch`. To train with them: `Loop`, and `PartMetrics` for the log. To add
a method: the kinds of parts, `parameter`, `register` and `recipe`.
"""

from objectives import methods, parts  # noqa: F401  (these register themselves)
from objectives.batch import (
    FIELDS,
    OF_TURNS,
    SCORED,
    UNREPORTED,
    Action,
    Entry,
    Prepared,
    Source,
    TokenBatch,
    Trace,
    Writer,
    concatenated,
    fields_from,
    over_scope,
    scope_reads,
    statistic,
    writers,
)
from objectives.definitions import CODE_FOLDERS, definitions_only, end_reading, importable_from, module_name
from objectives.errors import ObjectiveError
from objectives.expression import Term, read_terms
from objectives.failure_modes import FAILURE_MODES
from objectives.loop import (
    OTHER_FIELDS,
    POLICY_FIELDS,
    Loop,
    PartMetrics,
    Step,
    derivatives,
    k3,
    normalise,
    plans_by_report,
    step_scoring,
    whole_groups,
)
from objectives.objective import Objective, Plan, parse
from objectives.ops import largest, quantile, random_keys, random_subset, uniform_of
from objectives.part import (
    REQUIRED,
    Advantage,
    Aggregate,
    Bounds,
    Mask,
    Modifier,
    Part,
    Penalty,
    Ratio,
    Reward,
    Schedule,
    Select,
    Stage,
    Surrogate,
    Weight,
    parameter,
)
from objectives.recipes import recipe
from objectives.version import VERSION
from objectives.zoo import Name, known, names, register, with_examples

__all__ = [
    "CODE_FOLDERS",
    "FAILURE_MODES",
    "FIELDS",
    "OF_TURNS",
    "OTHER_FIELDS",
    "POLICY_FIELDS",
    "REQUIRED",
    "SCORED",
    "UNREPORTED",
    "VERSION",
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
    "PartMetrics",
    "Penalty",
    "Plan",
    "Prepared",
    "Ratio",
    "Reward",
    "Schedule",
    "Select",
    "Source",
    "Stage",
    "Step",
    "Surrogate",
    "Term",
    "TokenBatch",
    "Trace",
    "Weight",
    "Writer",
    "concatenated",
    "definitions_only",
    "derivatives",
    "end_reading",
    "fields_from",
    "importable_from",
    "k3",
    "known",
    "largest",
    "module_name",
    "names",
    "normalise",
    "over_scope",
    "parameter",
    "parse",
    "plans_by_report",
    "quantile",
    "random_keys",
    "random_subset",
    "read_terms",
    "recipe",
    "register",
    "scope_reads",
    "statistic",
    "step_scoring",
    "uniform_of",
    "whole_groups",
    "with_examples",
    "writers",
]

_RENAMED = {"drawn": "random_subset", "lots": "random_keys"}
"""Functions that users may have imported -> their new names; the old ones work."""


def __getattr__(name: str) -> object:
    if name in _RENAMED:
        return globals()[_RENAMED[name]]
    raise AttributeError(f"module 'objectives' has no attribute {name!r}")
