"""A machine with the pretended device: torch says that it is there."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Self
from unittest import mock

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map_only

from tests.simulated_device.tensor import CPU, DEVICE, MixedDevices, OnDevice, made, moved


class SimulatedDevice(TorchFunctionMode):
    """While it is entered, torch has a device `cuda:0`."""

    def __init__(self) -> None:
        super().__init__()
        self._entered = ExitStack()
        self._accelerate: list[dict[str, Any]] = [{}, {}]

    def __enter__(self) -> Self:
        stack = self._entered
        self._swap_accelerate()
        stack.callback(self._swap_accelerate)
        for module, pretended in ((torch.cuda, _CUDA), (torch.accelerator, _ACCELERATOR)):
            for name, value in pretended.items():
                stack.enter_context(mock.patch.object(module, name, value))
        stack.enter_context(mock.patch.object(torch.optim.Optimizer, _HEALTH_CHECK, lambda self: None))
        stack.enter_context(_autocast_of_the_cpu())
        stack.enter_context(_collectives_of_the_device())
        stack.enter_context(_tied_weights_stay_tied())
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*(error or (None, None, None)))
        self._entered.close()

    def _swap_accelerate(self) -> None:
        """What accelerate knows of the machine, which all its objects share, for what it knew of this one."""
        for i, state in enumerate((PartialState._shared_state, AcceleratorState._shared_state)):
            other, self._accelerate[i] = self._accelerate[i], dict(state)
            state.clear()
            state.update(other)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is Tensor.tolist and isinstance(args[0], OnDevice):
            return args[0].inner.tolist()
        if func is Tensor.new_tensor and isinstance(args[0], OnDevice):
            return made(func(args[0].inner, *args[1:], **kwargs))
        if func in (Tensor.cuda, Tensor.cpu):
            return moved(args[0], DEVICE if func is Tensor.cuda else CPU)
        if func is Tensor.pin_memory:
            return args[0]
        if func is Tensor.to:
            return self._to(args, kwargs)
        if kwargs.get("device") is not None:
            return self._made(func, args, kwargs)
        return func(*args, **kwargs)

    def _made(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """A factory function, told where to make the tensor."""
        device = kwargs["device"]
        device = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
        if device.type == "cuda":
            return tree_map_only(Tensor, made, func(*args, **{**kwargs, "device": CPU}))
        args = tree_map_only(OnDevice, lambda tensor: tensor.inner, args) if device.type == "cpu" else args
        return func(*args, **kwargs)

    def _to(self, args: Any, kwargs: dict[str, Any]) -> Tensor:
        tensor, *where = args
        copy = kwargs.pop("copy", False)
        if where and isinstance(where[0], Tensor):
            device, dtype = where[0].device, where[0].dtype
        else:
            device, dtype, *_ = torch._C._nn._parse_to(*where, **kwargs)  # type: ignore[attr-defined]
        result: Tensor = tensor if device is None else moved(tensor, torch.device(device))
        if dtype is not None and result.dtype != dtype:
            return result.to(dtype)
        return result.clone() if copy and result is tensor else result


_HEALTH_CHECK = "_accelerator_graph_capture_health_check"
_CUDA: dict[str, Any] = {
    "is_available": lambda: True,
    "is_initialized": lambda: True,
    "_lazy_init": lambda: None,
    "device_count": lambda: 1,
    "current_device": lambda: 0,
    "set_device": lambda device: None,
    "synchronize": lambda device=None: None,
    "empty_cache": lambda: None,
    "is_bf16_supported": lambda including_emulation=True: True,
    "get_device_name": lambda device=None: "simulated device",
    "get_device_capability": lambda device=None: (9, 0),
    "get_device_properties": lambda device=None: mock.Mock(total_memory=2**37),
    "mem_get_info": lambda device=None: (2**37, 2**37),
    "memory_allocated": lambda device=None: 0,
    "max_memory_allocated": lambda device=None: 0,
    "manual_seed": lambda seed: None,
    "manual_seed_all": lambda seed: None,
    "get_rng_state": lambda device="cuda": torch.zeros(16, dtype=torch.uint8),
    "set_rng_state": lambda state, device="cuda": None,
}
_ACCELERATOR: dict[str, Any] = {
    "is_available": lambda: True,
    "current_accelerator": lambda check_available=False: torch.device("cuda"),
    "device_count": lambda: 1,
}


@contextmanager
def _collectives_of_the_device() -> Iterator[None]:
    """NCCL takes tensors of the device only, which a single process would not notice."""

    def checked(name: str) -> Any:
        original = getattr(Accelerator, name)

        def method(self: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if any(isinstance(value, Tensor) and not isinstance(value, OnDevice) for value in tree_flatten(tensor)[0]):
                raise MixedDevices(f"Accelerator.{name} of a CPU tensor: NCCL has no collectives for CPUs")
            return original(self, tensor, *args, **kwargs)

        return method

    with ExitStack() as stack:
        for name in ("gather", "reduce", "pad_across_processes"):
            stack.enter_context(mock.patch.object(Accelerator, name, checked(name)))
        yield


@contextmanager
def _autocast_of_the_cpu() -> Iterator[None]:
    """Autocast for the device is the CPU's, with the same dtype."""

    def known(device: Any) -> Any:
        return "cpu" if str(device).startswith("cuda") else device

    def on_cpu(original: Any) -> Any:
        return lambda *args: original(*([known(args[0]), *args[1:]] if args else ["cpu"]))

    autocast = torch.amp.autocast_mode.autocast
    initialise = autocast.__init__

    def init(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        initialise(self, known(device_type), *args, **kwargs)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(autocast, "__init__", init))
        for name in ("is_autocast_enabled", "get_autocast_dtype", "set_autocast_enabled", "set_autocast_dtype"):
            stack.enter_context(mock.patch.object(torch, name, on_cpu(getattr(torch, name))))
        yield


@contextmanager
def _tied_weights_stay_tied() -> Iterator[None]:
    """As on CUDA, where moving a module keeps its parameters' identities."""
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        yield
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)
