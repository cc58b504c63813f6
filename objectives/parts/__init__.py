"""The parts that several methods use, by stage; importing this package registers them all."""

from objectives.parts import (  # noqa: F401
    advantages,
    aggregates,
    masks,
    penalties,
    ratios,
    rewards,
    schedules,
    select,
    surrogates,
    weights,
)
