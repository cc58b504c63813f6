"""A machine with the pretended device: torch says that it is there, and what makes the host wait is counted."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self
from unittest import mock

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map_only

from tests.simulated_device.tensor import CPU, DEVICE, INDEXING, MixedDevices, OnDevice, aten, made, moved

ROOT = Path(__file__).parents[2]
PROJECT = tuple(str(ROOT / room) for room in ("rlzoo", "objectives"))

WAITS = {
    aten._local_scalar_dense: "item",
    aten.is_nonzero: "item",
    aten.equal: "equal",
    aten.nonzero: "nonzero",
    aten.masked_select: "masked_select",
    aten._unique2: "unique",
    aten.unique_dim: "unique",
    aten.unique_consecutive: "unique",
    aten.bincount: "bincount",
}
"""Operations whose result, or its size, the host has to know."""


class Sync(NamedTuple):
    """A place where the host waits for the device: how, and the line of the project that is to blame."""

    kind: str
    line: str


class SimulatedDevice(TorchFunctionMode):
    """While it is entered, torch has a device `cuda:0`; `syncs` counts what made the host wait for it, and where."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs: Counter[Sync] = Counter()
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
        stack.enter_context(mock.patch.object(OnDevice, "watcher", self._watch))
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
            self._count("tolist")
            return args[0].inner.tolist()
        if func is Tensor.new_tensor and isinstance(args[0], OnDevice):
            self._count("copy to the device")
            return made(func(args[0].inner, *args[1:], **kwargs))
        if func in (Tensor.cuda, Tensor.cpu):
            return self._moved(args[0], DEVICE if func is Tensor.cuda else CPU)
        if func is Tensor.pin_memory:
            return _pinned(args[0])
        if func is Tensor.is_pinned:
            return getattr(args[0], "pinned", False)
        if func is Tensor.to:
            return self._to(args, kwargs)
        if kwargs.get("device") is not None:
            return self._made(func, args, kwargs)
        return func(*args, **kwargs)

    def _made(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """A factory function, told where to make the tensor."""
        device = kwargs["device"]
        device = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
        of_device = any(isinstance(value, OnDevice) for value in args)
        if device.type == "cuda":
            out = func(*args, **{**kwargs, "device": CPU})
            if func in (torch.tensor, torch.as_tensor) and not of_device:
                self._count("copy to the device")
            return tree_map_only(Tensor, made, out)
        args = tree_map_only(OnDevice, lambda tensor: tensor.inner, args) if device.type == "cpu" else args
        return func(*args, **kwargs)

    def _to(self, args: Any, kwargs: dict[str, Any]) -> Tensor:
        tensor, *where = args
        copy = kwargs.pop("copy", False)
        if where and isinstance(where[0], Tensor):
            device, dtype, non_blocking = where[0].device, where[0].dtype, kwargs.get("non_blocking", False)
        else:
            device, dtype, non_blocking, _ = torch._C._nn._parse_to(*where, **kwargs)  # type: ignore[attr-defined]
        result: Tensor = tensor if device is None else self._moved(tensor, device, non_blocking)
        if dtype is not None and result.dtype != dtype:
            return result.to(dtype)
        return result.clone() if copy and result is tensor else result

    def _moved(self, tensor: Tensor, device: torch.device, non_blocking: bool = False) -> Tensor:
        result = moved(tensor, torch.device(device))
        if result is not tensor:
            waits = not (non_blocking and (isinstance(tensor, OnDevice) or getattr(tensor, "pinned", False)))
            if isinstance(tensor, OnDevice):
                self._count("copy to the CPU")  # what is not waited for has no values yet
            elif waits:
                self._count("copy to the device")
        return result

    def _watch(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        packet = func.overloadpacket
        kind = WAITS.get(packet, "")
        if packet is aten.repeat_interleave and kwargs.get("output_size") is None:
            kind = "repeat_interleave"
        if packet in INDEXING:
            indices = [index for index in args[1] if isinstance(index, Tensor)]
            fills = len(args) > 2 and isinstance(args[2], Tensor) and args[2].numel() == 1
            if any(index.dtype == torch.bool for index in indices) and not fills:
                kind = "boolean index"
            elif not all(isinstance(index, OnDevice) for index in indices):
                kind = "index from the CPU"
        if packet is aten.copy_ and isinstance(args[0], OnDevice) != isinstance(args[1], OnDevice):
            kind = "copy to the device" if isinstance(args[0], OnDevice) else "copy to the CPU"
        if kind:
            self._count(kind)

    def _count(self, kind: str) -> None:
        self.syncs[Sync(kind, _line())] += 1

    def report(self) -> str:
        """The syncs, most frequent first, one a line."""
        return "\n".join(f"{number:6d}  {kind:20s} {line}" for (kind, line), number in self.syncs.most_common())


def _line() -> str:
    """The innermost line of the project in the stack; else the innermost one outside torch."""
    frame: Any = sys._getframe(1)
    outside = ""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(PROJECT):
            return f"{name.removeprefix(f'{ROOT}/')}:{frame.f_lineno} {frame.f_code.co_name}"
        if not outside and "/torch/" not in name and "simulated_device" not in name:
            outside = f"{name.rpartition('site-packages/')[2]}:{frame.f_lineno}"
        frame = frame.f_back
    return outside


def _pinned(tensor: Tensor) -> Tensor:
    if isinstance(tensor, OnDevice):
        raise RuntimeError("cannot pin 'torch.cuda.LongTensor' only dense CPU tensors can be pinned")
    copy = tensor.clone()
    copy.pinned = True  # type: ignore[attr-defined]
    return copy


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
