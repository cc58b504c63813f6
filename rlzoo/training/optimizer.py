"""AdamW and its learning rate: torch's own, or torchao's.

torchao's moments have eight bits a number (Dettmers et al., arXiv:2110.02861).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rlzoo.config import TrainConfig
from rlzoo.model.sharding import local_rows, sharded_as

MOMENTS = ("exp_avg", "exp_avg_sq")
"""Means of gradients and of their squares, which AdamW keeps of a parameter beside its count of steps."""
BLOCKS = (256, 128, 64)
"""Numbers that share a scale, the most that a row of a parameter is made of; torchao's own choice is 256."""
FEWEST = 4096
"""Numbers of a parameter whose moments have eight bits; those of smaller ones stay float32, as torchao has it."""
CODES, SCALE = "codes", "scale"
"""Parts of a moment in eight bits: bytes shaped as the parameter, and a float32 a block: [rows, blocks of a row]."""


def make_optimizer(train: TrainConfig, parameters: Sequence[nn.Parameter]) -> Optimizer:
    """Makes the optimizer of `train.optimizer` for these parameters, which may be sharded."""
    betas = (train.betas[0], train.betas[1])
    if train.optimizer == "adamw":
        return torch.optim.AdamW(
            parameters, lr=train.learning_rate, betas=betas, weight_decay=train.weight_decay, fused=True
        )
    from torchao.optim import AdamW8bit

    groups = [{"params": parameters, "eight_bits": True}]
    optimizer: Optimizer = AdamW8bit(groups, lr=train.learning_rate, betas=betas, weight_decay=train.weight_decay)
    for parameter in parameters:  # else torchao would cut each process's rows into blocks that others have otherwise
        moments = {name: zero_moment(parameter, name) for name in MOMENTS}
        optimizer.state[parameter] = {"step": torch.tensor(0.0), **moments}
    return optimizer


def rate_fraction(train: TrainConfig) -> Callable[[int], float]:
    """The fraction of `train.learning_rate` at a step, counted from 0: transformers' schedule, one step further on.

    So neither the first step nor the last has rate 0, whatever the schedule. transformers' own imports what its trainer
    needs, which takes a tenth of the time before the first step.
    """
    rise, fall = train.warmup_steps, max(1, train.steps + 1 - train.warmup_steps)

    def fraction(step: int) -> float:
        at = step + 1
        if at < rise:
            return at / rise
        if train.schedule == "constant":
            return 1.0
        if train.schedule == "linear":
            return max(0.0, (train.steps + 1 - at) / fall)
        return max(0.0, 0.5 * (1.0 + math.cos(math.pi * ((at - rise) / fall))))

    return fraction


def set_rate(optimizer: Optimizer, rate: float) -> None:
    """Sets the learning rate; torchao keeps it in a tensor."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def take_step(optimizer: Optimizer) -> None:
    """One update. torchao compiles its own on a GPU; on the CPU it is calculated as it stands, without a compiler."""
    on_cpu = optimizer.param_groups[0]["params"][0].device.type == "cpu"
    with torch.compiler.set_stance("force_eager") if on_cpu and has_eight_bits(optimizer) else nullcontext():
        optimizer.step()


def has_eight_bits(optimizer: Optimizer) -> bool:
    """Whether it is torchao's."""
    return bool(optimizer.param_groups[0].get("eight_bits"))


def block_size(parameter: Tensor) -> int:
    """Numbers of a block of its moments; 0 if these stay float32.

    Blocks lie within rows, so that they are the same over however many processes the rows are dealt.
    """
    return block_of_row(parameter.numel() // len(parameter)) if parameter.numel() >= FEWEST else 0


def block_of_row(numbers: int) -> int:
    """Numbers of a block in a row of `numbers`; 0 if the row is not made of whole blocks."""
    return next((size for size in BLOCKS if numbers % size == 0), 0)


def zero_moment(parameter: Tensor, name: str) -> Tensor:
    """The moment of that name, in eight bits if the parameter's are, before the first update."""
    rows, size = local_rows(parameter.detach()), block_size(parameter)
    if not size or not rows.numel():
        return torch.zeros_like(parameter.detach())
    from torchao.optim.subclass_8bit import OptimState8bit

    signed = name == MOMENTS[0]
    return sharded_as(OptimState8bit.zeros(rows.shape, signed, size, rows.device, dtype=rows.dtype), parameter)


def plain_parts(moment: Tensor, parameter: Tensor) -> Mapping[str, Tensor]:
    """A moment in eight bits as tensors of a file, by `CODES` and `SCALE`: in its memory, and sharded as it is."""
    rows, size = local_rows(moment), block_size(parameter)
    scales = (len(rows), parameter.numel() // len(parameter) // size)
    if not rows.numel():  # this process has no row
        parts = rows.to(torch.uint8), rows.new_zeros(scales)
    else:
        parts = rows.codes, rows.scale.view(scales)  # type: ignore[attr-defined]
    return {name: sharded_as(part, parameter) for name, part in zip((CODES, SCALE), parts, strict=True)}
