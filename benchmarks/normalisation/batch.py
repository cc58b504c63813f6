"""The batch that everybody gets: ragged rollouts of the embedded model's vocabulary, in groups of four."""

import re
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

MODEL = Path(__file__).parents[2] / "rlzoo" / "embedded" / "sums"
GROUPS, SIZE, LENGTH, END = 8, 4, 12, 14
CUTS = (1, 2, 4, 8)

_generator = torch.Generator().manual_seed(0)
_lengths = torch.randint(1, LENGTH + 1, (GROUPS * SIZE,), generator=_generator).tolist()
PROMPTS: Sequence[Sequence[int]] = [[*range(1, 4 + group % 3), group] for group in range(GROUPS)]
RESPONSES: Sequence[Sequence[int]] = [
    [*torch.randint(0, END, (length - 1,), generator=_generator).tolist(), END] for length in _lengths
]
REWARDS: Tensor = torch.rand(GROUPS * SIZE, generator=_generator).round()
REWARDS[::SIZE], REWARDS[1::SIZE] = 0.0, 1.0
"""[32] no group is all right or all wrong."""


def save(folder: Path, engine: str, loss: str, cut: int, ranks: int, gradient: Tensor) -> None:
    """Keeps the gradient of the batch in so many micro-batches, on so many ranks."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(
        {"engine": engine, "loss": loss, "cut": cut, "ranks": ranks, "gradient": gradient},
        folder / (re.sub(r"\W+", "_", f"{engine} {loss} {cut} {ranks}") + ".pt"),
    )
