"""Tensors that say they lie on `cuda:0`: every operation that CUDA would refuse because of another's device raises."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map_only

DEVICE = torch.device("cuda", 0)
CPU = torch.device("cpu")

aten = torch.ops.aten
INDEXING = (aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_, aten._unsafe_index)
CUDA_KERNELS = (aten.mm.dtype, aten.bmm.dtype, aten.addmm.dtype)
"""Products with a result of another dtype, which the CPU has not."""


class MixedDevices(RuntimeError):
    """What CUDA says of tensors on two devices."""


class OnDevice(Tensor):
    """A CPU tensor, `inner`, that claims to lie on the device."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "OnDevice":
        assert not isinstance(inner, OnDevice)
        return Tensor._make_wrapper_subclass(  # type: ignore[attr-defined, no-any-return]
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            layout=inner.layout,
            device=inner.device,
        )

    def __init__(self, inner: Tensor) -> None:
        self.inner = inner

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return DEVICE

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True

    @property
    def is_cpu(self) -> bool:  # type: ignore[override]
        return False

    def get_device(self) -> int:
        return 0

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor first")

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        return self.numpy()

    def data_ptr(self) -> int:
        return self.inner.data_ptr()

    def untyped_storage(self) -> Any:
        return self.inner.untyped_storage()

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"OnDevice({self.inner!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if id(self) not in memo:
            copy: Tensor = OnDevice(self.inner.detach().clone())
            is_parameter = isinstance(self, nn.Parameter)
            memo[id(self)] = nn.Parameter(copy, self.requires_grad) if is_parameter else copy
        return memo[id(self)]  # type: ignore[no-any-return]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, Tensor)]
        elsewhere = [tensor for tensor in tensors if not isinstance(tensor, OnDevice) and tensor.dim() > 0]
        if elsewhere and func.overloadpacket is not aten.copy_:
            _refuse(func, args, elsewhere)
        inner_args, inner_kwargs = tree_map_only(OnDevice, lambda tensor: tensor.inner, (args, kwargs))
        if inner_kwargs.get("device") is not None:
            inner_kwargs = {**inner_kwargs, "device": CPU}
        if func in CUDA_KERNELS:
            *operands, dtype = inner_args
            out = func.overloadpacket(*(operand.to(dtype) for operand in operands))
        else:
            out = func(*inner_args, **inner_kwargs)
        if func.overloadpacket is aten.copy_ and not isinstance(args[0], OnDevice):
            return args[0]
        there = tree_map_only(Tensor, lambda tensor: tensor if isinstance(tensor, OnDevice) else OnDevice(tensor), out)
        return return_and_correct_aliasing(func, args, kwargs, there)


def _refuse(func: Any, args: Any, elsewhere: Sequence[Tensor]) -> None:
    """Raises, unless it is one of CUDA's exceptions: a tensor of the device may be indexed from the CPU."""
    if func.overloadpacket in INDEXING and isinstance(args[0], OnDevice):
        values = args[2] if len(args) > 2 else None
        if isinstance(values, OnDevice) or values is None or values.dim() == 0:
            return
    raise MixedDevices(
        f"{func}: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu "
        f"(CPU tensor of shape {list(elsewhere[0].shape)}, {elsewhere[0].dtype})"
    )


class _ToDevice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return OnDevice(tensor.detach().clone())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient.inner.clone() if isinstance(gradient, OnDevice) else gradient


class _ToCpu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: OnDevice) -> Tensor:
        return tensor.inner.detach().clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient if isinstance(gradient, OnDevice) else OnDevice(gradient.clone())


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """A copy on the other device, or the tensor itself if it is there."""
    if isinstance(tensor, OnDevice) == (device.type == "cuda"):
        return tensor
    function: Any = _ToDevice if device.type == "cuda" else _ToCpu
    return function.apply(tensor)  # type: ignore[no-any-return]


def made(tensor: Tensor) -> Tensor:
    """What a factory function made, as if it had made it on the device."""
    if isinstance(tensor, OnDevice):
        return tensor
    return OnDevice(tensor.detach()).requires_grad_(tensor.requires_grad)
