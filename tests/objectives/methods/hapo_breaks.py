"""Mistakes that one could make in HAPO."""

from torch import Tensor

from tests.objectives.breaks import Break, always, negated, result


def as_committed(height: Tensor, *given: object) -> Tensor:
    return height.abs()


BREAKS = [
    Break("sign", "mean minus reward", "token_group_norm", "of", result(negated)),
    Break("sign", "sure tokens count as unsure", "heterogeneous_clip", "height", result(as_committed)),
    Break("sign", "sure tokens weighed as unsure", "zone_reweighting", "height", result(as_committed)),
    Break("bound", "no guard", "token_group_norm", "guard", always(1e30)),
    Break("bound", "another quantile", "heterogeneous_clip", "rho", always(0.5)),
    Break("bound", "zone of PPO", "zone_reweighting", "alpha", always(0.0)),
    Break("scope", "per micro-batch", "zone_reweighting", "scope", always("microbatch")),
]
