"""torch, imported when something of it is first asked for: expressions are read and checked without waiting for it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:

    class _Torch:
        """Stands for the module."""

        def __getattr__(self, name: str) -> Any:
            import torch

            self.__dict__ = torch.__dict__  # where Python finds from now on what is asked for
            return getattr(torch, name)

    class _TensorType(type):
        def __instancecheck__(cls, instance: object) -> bool:
            import torch

            return isinstance(instance, torch.Tensor)

    class Tensor(metaclass=_TensorType):
        """Stands for the class, in annotations and in `isinstance`."""

    torch = _Torch()

__all__ = ["Tensor", "torch", "without_gradients"]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def without_gradients(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Carries out a function under `torch.no_grad()`, which as a decorator would import torch where it stands."""

    @functools.wraps(function)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        with torch.no_grad():
            return function(*args, **kwargs)

    return run
