"""Arithmetic of the model, and what the machine could do: how well the time was used."""

import time
from typing import Any

import torch

from rlzoo.model.policy import Policy

SIZES = {"cpu": (256, 512, 1024, 2048), "cuda": (1024, 8192)}
"""Of the matrices whose product is timed, ascending."""
LONG = 0.05
"""Seconds of a product after which no larger one is tried: bfloat16 takes some processors a minute."""


def forward_flops(policy: Policy, positions: int, predictions: int) -> float:
    """Floating-point operations of a forward pass: two per weight and position, the head where something is predicted.

    Attention between positions is left out, as is usual; a backward pass is two forward ones. Every expert of a mixture
    counts.
    """
    model: Any = policy.model
    inputs, outputs = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    tables = {id(table): table.numel() for table in (inputs, outputs)}
    body = sum(parameter.numel() for parameter in policy.parameters()) - sum(tables.values())
    return 2.0 * (body * positions + outputs.numel() * predictions)


@torch.no_grad()
def measured_peak(device: torch.device, dtype: torch.dtype) -> float:
    """Floating-point operations per second of a square matrix product: the best of a few, of growing sizes."""
    peak = 0.0
    for size in SIZES.get(device.type, SIZES["cpu"]):
        left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        seconds = min(_seconds(left, right) for _ in range(5))
        peak = max(peak, 2.0 * size**3 / seconds)
        if seconds > LONG:
            break
    return peak


def _seconds(left: torch.Tensor, right: torch.Tensor) -> float:
    _finish(left.device)
    started = time.perf_counter()
    left @ right
    _finish(left.device)
    return time.perf_counter() - started


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
