"""A stand-in for verl's accelerator: a platform with which its FSDP engines run on CPUs.

    VERL_USE_EXTERNAL_MODULES=examples.verl_cpu,examples.verl_transformers,objectives.adapters.verl python ... \
        trainer.device=cpu actor_rollout_ref.rollout.name=transformers

For trying things and for tests, with models that are small.
"""

import os
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

os.environ["VERL_ENGINE_DEVICE"] = "cuda"  # the FSDP engines are registered for it; nothing in them needs it

import torch
import verl.utils.distributed
import verl.utils.fsdp_utils
from torch.distributed.fsdp import OffloadPolicy
from verl.plugin.platform import PlatformBase, PlatformRegistry, set_platform


def _device_module() -> types.ModuleType:
    """What verl calls of `torch.cuda`: there is one device, and nothing is measured."""

    def nothing(*_: Any, **__: Any) -> None: ...

    def zero(*_: Any, **__: Any) -> int:
        return 0

    module = types.ModuleType("cpu_as_accelerator")
    nothings = ("set_device", "empty_cache", "synchronize", "ipc_collect", "reset_peak_memory_stats", "manual_seed")
    zeros = ("max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved")
    module.__dict__.update(
        {name: nothing for name in nothings} | {name: zero for name in zeros},
        memory_stats=lambda *_: {},
        mem_get_info=lambda *_: (0, 0),
        get_device_name=lambda *_: "cpu",
        get_rng_state=torch.get_rng_state,
        set_rng_state=torch.set_rng_state,
        is_available=lambda: True,
        is_bf16_supported=lambda: True,
        device_count=lambda: 1,
        current_device=lambda: "cpu",
    )
    return module


@PlatformRegistry.register(platform="cpu")
class CPUPlatform(PlatformBase):
    """A CPU that verl takes for its accelerator; ray calls it a GPU."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _device_module()

    def is_available(self) -> bool:
        return True

    def current_device(self) -> Any:
        return "cpu"

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None: ...

    def synchronize(self, device_index: int | None = None) -> None: ...

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None: ...

    def empty_cache(self) -> None: ...

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None: ...

    def profiler_stop(self) -> None: ...

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None: ...


set_platform(CPUPlatform())

_start_group = verl.utils.distributed.initialize_global_process_group_ray


def _start_gloo(timeout_second: float | None = None, backend: str | None = None) -> None:
    _start_group(timeout_second, backend or "gloo")  # verl's "cpu:gloo,cpu:gloo" names a device twice


verl.utils.distributed.initialize_global_process_group_ray = _start_gloo
verl.utils.fsdp_utils.CPUOffloadPolicy = lambda pin_memory: OffloadPolicy()  # pinned memory needs a GPU
