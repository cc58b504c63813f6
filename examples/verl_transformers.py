"""A stand-in for verl's inference engines: transformers' `generate`, in a process of its own, fed by the actor.

    VERL_USE_EXTERNAL_MODULES=examples.verl_transformers,... python ... actor_rollout_ref.rollout.name=transformers

For trying things and for tests, where neither vLLM nor SGLang runs; agent loops, rewards and the hand-over of weights
are verl's own.
"""

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import ray
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer
from verl.workers.rollout.base import _ROLLOUT_REGISTRY, BaseRollout
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
        if sampling_params.get("prompt_logprobs") is not None:
            return self._opinion(prompt_ids)
        answer: asyncio.Future[TokenOutput] = asyncio.get_running_loop().create_future()
        self.waiting.append((prompt_ids, sampling_params["temperature"], answer))
        if len(self.waiting) == 1:
            await asyncio.sleep(0.2)
            requests, self.waiting = self.waiting, []
            for request, output in zip(requests, self._answers(requests), strict=True):
                request[2].set_result(output)
        return await answer

    @torch.no_grad()
    def _opinion(self, tokens: list[int]) -> TokenOutput:
        """What verl asks a teacher: at each token the log-prob of the next one, and nothing at the last."""
        logp = self.model(torch.tensor([tokens])).logits[0, :-1].log_softmax(-1)
        following = torch.tensor(tokens[1:])[:, None]
        said = {"prompt_ids": following.tolist(), "prompt_logprobs": logp.gather(1, following).tolist()}
        return TokenOutput(token_ids=[], extra_fields={name: [*values, [0]] for name, values in said.items()})

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
        name = f"transformers_{self.replica_rank}{self.name_suffix}"  # a teacher has one
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
_ROLLOUT_REGISTRY["transformers", "async"] = "examples.verl_transformers.TransformersRollout"
