"""How the learning rate changes over a run."""

from collections.abc import Callable
from typing import Any

import torch
from transformers import get_scheduler

from rlzoo.config import TrainConfig

_NAMES = {"constant": "constant_with_warmup", "linear": "linear", "cosine": "cosine"}
"""What transformers calls them."""


def rate_fraction(train: TrainConfig) -> Callable[[int], float]:
    """The fraction of `train.learning_rate` at a step, counted from 0: transformers' schedule, one step further on.

    So neither the first step nor the last has rate 0, whatever the schedule.
    """
    nothing = torch.optim.SGD([torch.zeros(1)])
    name = _NAMES[train.schedule]
    schedule: Any = get_scheduler(
        name, nothing, num_warmup_steps=train.warmup_steps, num_training_steps=train.steps + 1
    )
    of_step: Callable[[int], float] = schedule.lr_lambdas[0]
    return lambda step: of_step(step + 1)
