"""The zoo of reinforcement-learning objectives for LLM reasoning: one algebra, one file per method, torch only.

Reading order: `batch` (the data), `part` (the ten stages), `objective` (prepare, plan, loss), `expression` (the
grammar), `zoo` (the names); then the methods:

    ppo, grpo, dapo, entropy20, justrl, advantage_reweighting, lopti, stare, stapo;
    dr_grpo, entropy_bonus, sampler_correction
"""

from objectives import methods  # noqa: F401
from objectives.batch import TokenBatch
from objectives.errors import ObjectiveError
from objectives.objective import Objective, Plan, parse
from objectives.zoo import Name, names

__all__ = ["Name", "Objective", "ObjectiveError", "Plan", "TokenBatch", "names", "parse"]
