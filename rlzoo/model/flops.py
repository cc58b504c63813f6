"""Arithmetic of the model, and what the machine could do: how well the time was used."""

import time
from typing import Any

import torch

from rlzoo.model.policy import Policy

SIZE = {"cpu": 2048, "cuda": 8192}


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
    """Floating-point operations per second of a square matrix product, the best of a few."""
    size = SIZE.get(device.type, 2048)
    left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    best = float("inf")
    for _ in range(5):
        _finish(device)
        started = time.perf_counter()
        left @ right
        _finish(device)
        best = min(best, time.perf_counter() - started)
    return 2.0 * size**3 / best


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
