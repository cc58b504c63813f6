"""What forward and backward passes take of each GPU beside weights and their gradients."""

import math
from collections.abc import Iterator

from objectives import Objective
from rlzoo.config import Config
from rlzoo.model.shape import Shape
from rlzoo.model.token_stats import GPU_BLOCK


def activations(shape: Shape, positions: int, rows: int, bfloat16: bool, checkpointing: bool, masked: int = 0) -> float:
    """Bytes that a forward pass over so many token positions keeps for the backward pass.

    Under bfloat16 autocast the residual stream and the norms stay float32, and the weights of the layers that are kept
    are kept in bfloat16 too.
    Where masks keep responses apart in rows of `masked` positions, every layer keeps them as numbers.
    """
    layer = _layer_activations(shape, positions, bfloat16, masked)
    once = positions * (12 * shape.hidden + 4 + masked) + rows * 24
    if checkpointing:  # inputs of all layers, and one layer calculated again
        return once + positions * 4 * shape.hidden * shape.layers + layer
    return once + layer * shape.layers


def _layer_activations(shape: Shape, positions: int, bfloat16: bool, masked: int) -> float:
    """Bytes that a layer keeps for its backward pass."""
    layer = float(positions * (kept_per_position(shape, bfloat16) + mask_per_position(masked, bfloat16)))
    return layer + 2 * shape.linear / shape.layers if bfloat16 else layer


def kept_per_position(shape: Shape, bfloat16: bool) -> int:
    """Bytes of one layer and position: norms, projections, rotated queries and keys, attention, and the MLP."""
    queries, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    number = 2 if bfloat16 else 4
    norms = 16 * shape.hidden + (10 if bfloat16 else 8) * shape.hidden + 8  # inputs of projections are cast one by one
    attention = number * 2 * (queries + keys) + 4 * shape.heads
    normalised = (number + 4) * (queries + keys) + 4 * (shape.heads + shape.kv_heads) if shape.qk_norm else 0
    return norms + attention + normalised + number * 4 * shape.intermediate


def mask_per_position(masked: int, bfloat16: bool) -> int:
    """Bytes of a layer's mask for one position in rows of so many."""
    return masked * (2 if bfloat16 else 4)


def training_moments(
    config: Config, shape: Shape, objective: Objective, share: float, positions: int, masked: int
) -> Iterator[dict[str, float]]:
    """What training adds to weights and gradients: in the head, forward and backward, in the last layers, and in the
    embedding.

    Layers that are calculated again are not there while the head is gone through. Gradients of the head and the
    embedding are whole until they are added up, of one weight with their sum, or scattered from a copy.
    """
    model, bfloat16 = config.model, config.model.precision == "bfloat16"
    longest = config.rollout.max_prompt_tokens + config.rollout.max_response_tokens
    rows = math.ceil(positions / longest)
    kept = activations(shape, positions, rows, bfloat16, model.gradient_checkpointing, masked)
    layer = _layer_activations(shape, positions, bfloat16, masked)
    with_entropy = objective.needs_entropy_gradient
    forward, backward = (logits_bytes(shape, positions, with_entropy, backward) for backward in (False, True))
    embedding, gradients, widest = _gradients(shape, model.lora.rank)
    if not model.lora.rank:
        backward += 4.0 * shape.hidden * _block_width(shape, positions)
    again = layer if model.gradient_checkpointing else 0.0
    yield {"activations": kept - again, "logits": forward}
    yield {"activations": kept - again, "logits": backward, "whole gradients": embedding}
    number, inputs = 2.0 if bfloat16 else 4.0, 4.0 * shape.hidden * positions
    products, scattered = 2 * number * shape.intermediate * positions, 0.0
    in_layer = products + widest - 2 * inputs  # the head's states are gone
    if share > 1:  # whole until the layer is done; the copy that is scattered stays until the next layer is
        in_layer = max(in_layer, 3 * widest - 2 * products, gradients - layer)
        scattered = max(0.0, gradients - (inputs if model.gradient_checkpointing else layer))
    yield {"activations": kept, "a layer's backward": in_layer, "whole gradients": embedding + scattered}
    at_once = 3 if shape.tied else 2 + 2 / share if share > 1 else 1  # scattered once the weights are given back
    yield {"whole gradients": at_once * embedding + (gradients if share > 1 else 0.0)}


def _gradients(shape: Shape, rank: int) -> tuple[float, float, float]:
    """Bytes of whole gradients: of the embedding, of a layer, and of a projection of its MLP."""
    if rank:
        return 0.0, 4.0 * shape.adapters(rank) / shape.layers, 4.0 * rank * (shape.hidden + shape.intermediate)
    sizes = shape.vocabulary * shape.hidden, shape.linear / shape.layers, shape.hidden * shape.intermediate
    return 4.0 * sizes[0], 4.0 * sizes[1], 4.0 * sizes[2]


def logits_bytes(shape: Shape, positions: int, with_entropy: bool, backward: bool = False) -> float:
    """Bytes of the blocks of logits of so many positions.

    A block is there until the next one is; if an entropy is asked for, so are its exponentials, and on the way forward
    the products of both.
    """
    width = _block_width(shape, positions)
    several = 2 if width < shape.vocabulary else 1
    return 4.0 * positions * width * ((several + 1 if backward else 3) if with_entropy else several)


def _block_width(shape: Shape, positions: int) -> int:
    """How much of the vocabulary a block of logits is for."""
    return min(shape.vocabulary, max(256, GPU_BLOCK // positions))
