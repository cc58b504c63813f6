"""Mistakes that one could make in HAPO."""

from dataclasses import replace
from typing import Any

from torch import Tensor

from tests.objectives.breaks import Break, Wrong, always, negated, result


def as_committed(height: Tensor, *given: object) -> Tensor:
    return height.abs()


def with_setting(**changes: Any) -> Wrong:
    """One of the two parts calculates with another setting than it has."""
    return lambda original: lambda self, *given: original(replace(self, **changes), *given)


BREAKS = [
    Break("sign", "mean minus reward", "token_group_norm", "of", result(negated)),
    Break("sign", "sure tokens count as unsure", "heterogeneous_clip", "height", result(as_committed)),
    Break("sign", "sure tokens weighed as unsure", "zone_reweighting", "height", result(as_committed)),
    Break("bound", "no guard", "token_group_norm", "guard", always(1e30)),
    Break("bound", "another quantile", "heterogeneous_clip", "modify", with_setting(rho=0.5)),
    Break("bound", "zone of PPO", "zone_reweighting", "weight", with_setting(alpha=0.0)),
    Break("scope", "per micro-batch", "zone_reweighting", "weight", with_setting(scope="microbatch")),
]
