"""Stand-ins with which verl runs on CPUs: a platform for its accelerator, and transformers for its inference engine.

    VERL_USE_EXTERNAL_MODULES=examples.verl_cpu,objectives.adapters.verl python ... \
        trainer.device=cpu actor_rollout_ref.rollout.name=transformers actor_rollout_ref.actor.strategy=fsdp2

For trying things and for tests, with models that are small; everything else is verl's own. On a GPU leave it out.
"""

import asyncio
import os
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

os.environ.setdefault("VERL_ENGINE_DEVICE", "cuda")  # verl's FSDP engines are registered for it; nothing in them needs it

import ray
import torch
import verl.utils.distributed
import verl.utils.fsdp_utils
import verl.workers.rollout.base
from torch import Tensor
from torch.distributed.fsdp import OffloadPolicy
from transformers import AutoModelForCausalLM, AutoTokenizer
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


# ---- an inference engine ---------------------------------------------------------------------------------------------

from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput


@ray.remote
class TransformersServer:
    """Answers the requests that come within a moment of each other by one call of `generate`."""

    def __init__(self, path: str, length: int, seed: int) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self.model, self.length = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval(), length
        self.pad = AutoTokenizer.from_pretrained(path).pad_token_id
        self.version: int | None = None
        self.waiting: list[tuple[list[int], float, asyncio.Future[TokenOutput]]] = []

    async def generate(self, prompt_ids: list[int], sampling_params: Mapping[str, Any], **_: Any) -> TokenOutput:
        answer: asyncio.Future[TokenOutput] = asyncio.get_running_loop().create_future()
        self.waiting.append((prompt_ids, sampling_params["temperature"], answer))
        if len(self.waiting) == 1:
            await asyncio.sleep(0.2)
            requests, self.waiting = self.waiting, []
            for request, output in zip(requests, self._answers(requests), strict=True):
                request[2].set_result(output)
        return await answer

    @torch.no_grad()
    def _answers(self, requests: list[Any]) -> Iterator[TokenOutput]:
        prompts, temperature = [prompt for prompt, _, _ in requests], requests[0][1]
        width = max(map(len, prompts))
        ids = torch.tensor([[self.pad] * (width - len(prompt)) + prompt for prompt in prompts])
        present = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        how = {"do_sample": True, "temperature": temperature} if temperature > 0 else {"do_sample": False}
        made = self.model.generate(
            ids,
            attention_mask=present,
            max_new_tokens=self.length,
            pad_token_id=self.pad,
            top_k=0,
            output_scores=True,
            return_dict_in_generate=True,
            **how,
        )
        responses = made.sequences[:, width:]
        logits = torch.stack(made.scores, 1)
        logp = logits.log_softmax(-1).gather(2, responses[..., None])[..., 0]
        end = self.model.generation_config.eos_token_id
        for row, values in zip(responses.tolist(), logp.tolist(), strict=True):
            length = row.index(end) + 1 if end in row else len(row)
            yield TokenOutput(
                token_ids=row[:length],
                log_probs=values[:length],
                stop_reason="completed",
                extra_fields={"global_steps": self.version},
            )

    async def load(self, weights: Mapping[str, Tensor], version: int | None) -> None:
        missing, unexpected = self.model.load_state_dict(weights, strict=False)
        assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)  # which may be tied
        self.version = version

    async def sleep(self) -> None: ...

    async def wake_up(self) -> None: ...


class TransformersReplica(RolloutReplica):
    """One server for each replica; it shares its process with nobody."""

    async def launch_servers(self) -> None:
        name = f"transformers_{self.replica_rank}"
        server = TransformersServer.options(name=name, num_cpus=0).remote(
            os.path.expanduser(self.model_config.path), self.config.response_length, self.config.seed
        )
        self.servers, self._server_handle, self._server_address = [server], server, name


class TransformersRollout(BaseRollout):
    """Hands the actor's weights to the server of its rank."""

    async def update_weights(self, weights: Iterable[tuple[str, Tensor]], **options: Any) -> None:
        whole = {name: weight.detach().cpu().clone() for name, weight in weights}
        server = ray.get_actor(f"transformers_{torch.distributed.get_rank()}")
        await server.load.remote(whole, options.get("global_steps"))

    async def resume(self, tags: list[str]) -> None: ...

    async def release(self) -> None: ...


RolloutReplicaRegistry.register("transformers", lambda: TransformersReplica)
verl.workers.rollout.base._ROLLOUT_REGISTRY["transformers", "async"] = "examples.verl_cpu.TransformersRollout"
