"""An engine from outside: vLLM as rlzoo has it, which sleeps as on a GPU, though vLLM's CPU build has no sleep.

Its worker does with its memory what one on a GPU does, but that what was given back can be read: it is NaN.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from vllm import _custom_ops

from rlzoo.rollout.vllm_engine import VllmEngine

GARBAGE = 1e30
"""In the cache: attention on the CPU multiplies by zero what is masked in a block, so that NaN would get through."""


class SleepingVllm(VllmEngine):
    """`rollout.engine=tests.vllm.sleeping_engine:SleepingVllm`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        with _unpacked():
            super().__init__(*arguments, **options)
        self.worker = self.llm.llm_engine.model_executor.driver_worker.worker
        self.worker.sleep, self.worker.wake_up = partial(sleep, self.worker), partial(wake_up, self.worker)
        self.sleeps_here = True

    def _load_weights(self) -> None:
        with _unpacked():
            super()._load_weights()


def _unpacked() -> AbstractContextManager[Any]:
    """What is loaded here calculates from its parameters, not from copies that are packed for the processor."""
    return patch.object(_custom_ops, "_supports_onednn", False)


def weights_of(worker: Any) -> dict[str, Tensor]:
    """All that it calculates with."""
    return {name: weight.detach() for name, weight in worker.model_runner.model.named_parameters()}


def sleep(worker: Any, level: int) -> None:
    """Gives weights and cache back; the first level keeps the weights elsewhere."""
    weights = weights_of(worker)
    worker.level = level
    worker.kept = {name: weight.clone() for name, weight in weights.items()} if level == 1 else {}
    _lose(weights.values())
    _lose(worker.model_runner.kv_caches, GARBAGE)


def wake_up(worker: Any, tags: Sequence[str]) -> None:
    """Takes memory anew, in which there is nothing but the weights that were kept."""
    if "weights" in tags:
        weights = weights_of(worker)
        _lose(weights.values())
        for name, weight in worker.kept.items():
            weights[name].copy_(weight)
    if "kv_cache" in tags:
        _lose(worker.model_runner.kv_caches, GARBAGE)


def _lose(tensors: Iterable[Tensor], left: float = torch.nan) -> None:
    for tensor in tensors:
        tensor.fill_(left)
