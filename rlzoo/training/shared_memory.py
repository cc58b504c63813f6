"""What sharding, offload and the optimiser's bits make of the memory that weights, gradients and moments take."""

import math

from objectives import Objective
from rlzoo.config import Config, TrainConfig
from rlzoo.model.shape import Shape
from rlzoo.training.optimizer import block_of_row


def is_shared_out(train: TrainConfig, gpus: int) -> bool:
    """Whether models are sharded: one process has nobody to share with, unless it offloads."""
    return train.sharding == "fsdp" and (gpus > 1 or train.cpu_offload)


def sharers(train: TrainConfig, gpus: int) -> int:
    """Processes that share one copy of weights, gradients and moments."""
    return (train.shards or gpus) if is_shared_out(train, gpus) else 1


def gpu_share(train: TrainConfig, gpus: int) -> float:
    """The part of a copy that a GPU holds is one of so many; infinitely many where all of it is offloaded."""
    return math.inf if train.cpu_offload else sharers(train, gpus)


def on_their_way(train: TrainConfig, gpus: int) -> float:
    """What offloaded weights add to gathered ones: the parts that were sent to the GPU to be gathered."""
    return 1 / sharers(train, gpus) if train.cpu_offload else 0.0


def moment_bytes(config: Config, shape: Shape, trained: int) -> float:
    """Bytes of all moments of so many trained numbers; those of adapters, which are small, as if in float32."""
    if config.train.optimizer == "adamw" or config.model.lora.rank:
        return 8.0 * trained
    queries, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    into_layer = shape.hidden * (queries + 2 * keys + 2 * shape.intermediate)
    layer = into_layer * _bytes_of_row(shape.hidden) + shape.hidden * queries * _bytes_of_row(queries)
    layer += shape.hidden * shape.intermediate * _bytes_of_row(shape.intermediate)
    return shape.layers * layer + (shape.parameters - shape.linear) * _bytes_of_row(shape.hidden)


def _bytes_of_row(row: int) -> float:
    """Bytes of both moments of each number in rows of so many: codes and their part of a scale, or float32."""
    block = block_of_row(row)
    return 2 * (1 + 4 / block) if block else 8.0


def offloaded_bytes(
    config: Config, shape: Shape, objective: Objective, gpus: int, teacher: Shape | None = None
) -> float:
    """Bytes that `train.cpu_offload` keeps in the machine's memory for each process; 0 without it.

    Weights, their gradients and two moments; and those of a reference and a teacher that have weights of their own.
    torch rounds what it pins up to powers of two, by tensor, which is not counted.
    """
    if not config.train.cpu_offload:
        return 0.0
    numbers = 4 * shape.parameters
    if "logp_ref" in objective.needs:
        numbers += shape.parameters
    if teacher is not None:
        numbers += teacher.parameters
    return 4.0 * numbers / sharers(config.train, gpus)
