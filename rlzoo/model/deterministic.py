"""Operations that give the same bits every time on CUDA, where threads may add up in whatever order they come."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from rlzoo.errors import UserError

ENVIRONMENT = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "FLASH_ATTENTION_DETERMINISTIC": "1"}
"""What cuBLAS reads as it starts, and transformers' flash attention at each call; torch's own kernel asks torch."""


def prepare_deterministic(asked: bool, device: torch.device) -> None:
    """Tells libraries that read the environment, before any has started.

    Raises UserError on a device other than CUDA, where it has no effect.
    """
    if not asked:
        return
    if device.type != "cuda":
        raise UserError(
            f"train.deterministic=true has no effect on {device.type}: it chooses among the algorithms of CUDA; "
            f"leave it out"
        )
    os.environ.update(ENVIRONMENT)


@contextmanager
def deterministic(asked: bool) -> Iterator[None]:
    """Meanwhile, if asked, torch takes deterministic algorithms alone, also in the backward pass of its attention.

    Raises UserError where an operation has none.
    """
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(asked or before)
    try:
        yield
    except RuntimeError as error:
        if asked and "does not have a deterministic implementation" in str(error):
            operation = str(error).split(maxsplit=1)[0]
            raise UserError(
                f"train.deterministic=true: {operation} has no deterministic algorithm; leave it out"
            ) from error
        raise
    finally:
        torch.use_deterministic_algorithms(before)
