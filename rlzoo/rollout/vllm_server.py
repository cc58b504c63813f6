"""Sampling with a vLLM server, on GPUs of its own: over its OpenAI-compatible completions and its calls for weights.

The server is started by hand, before the run, and may serve one run after the other, one at a time:

    VLLM_SERVER_DEV_MODE=1 python -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-1.7B \
        --served-model-name Qwen/Qwen3-1.7B --port 8000 --dtype bfloat16 --hf-overrides '{"head_dtype": "float32"}' \
        --logprobs-mode processed_logprobs --generation-config vllm --max-num-seqs 512 --skip-tokenizer-init \
        --load-format dummy --weight-transfer-config '{"backend": "nccl"}'

`VllmServer.command` has it for a configuration, and so has every error. `--tensor-parallel-size` and the like may be
added. In its dev mode it takes weights from any client: it belongs on a network that is closed to others.
"""

import json
import math
import shlex
import socket
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Semaphore
from types import SimpleNamespace
from typing import Any, ClassVar
from urllib.parse import urlsplit
from uuid import uuid4

import numpy as np
import requests
import torch
from torch import Tensor

from rlzoo.config import ModelConfig, RolloutConfig
from rlzoo.config.decoding import Decoding
from rlzoo.errors import UserError, one_line
from rlzoo.model.policy import Policy
from rlzoo.model.pretrained import locate
from rlzoo.model.sharding import resharded
from rlzoo.model.tokenizer import Tokenizer
from rlzoo.rollout.base import Rollouts, Sampling, checkpoint_weights
from rlzoo.rollout.traits import VllmServerTraits
from rlzoo.rollout.vllm_engine import check_vllm, rollouts_of

SECONDS_TO_CONNECT, SECONDS_TO_ANSWER = 10, 6 * 3600
AS_NUMBERS = {"logprobs": 0, "ignore_eos": True, "return_token_ids": True, "return_tokens_as_token_ids": True}
"""Makes the server answer without a tokenizer: token ids, and the log-prob of each."""


class VllmServer(VllmServerTraits):
    """Samples with a vLLM server, which takes the policy's weights over after every change of them.

    A draw depends on seed, prompt and position alone, and not on the number of processes that ask; what else the server
    decodes at the moment changes the rounding of the logits. If another run gives the server weights, that is noticed.
    """

    backend: ClassVar[str] = "nccl"
    """How weights travel, as vLLM calls it."""
    receiver: ClassVar[str] = "NCCLWeightTransferEngine"
    """What takes them in the server."""

    def __init__(
        self,
        policy: Policy,
        tokenizer: Tokenizer,
        config: RolloutConfig,
        model: ModelConfig,
        version: int = 0,
    ) -> None:
        self.config, self.model, self.version = config, model, version
        self.stop_tokens = sorted(tokenizer.stop_tokens)
        self.connections = Semaphore(config.rows_per_batch)  # of all threads that ask for turns
        self.source = _Source(policy, torch.bfloat16 if model.precision == "bfloat16" else torch.float32)
        with self._named_errors(config, model):
            self.longest = _served(config)[model.name]
            self.context = tokenizer.context_length or math.inf
            self._check_room(1 + config.max_response_tokens)
            self.transfer = self._connected()
        self.sync(policy, version)

    def _check_room(self, tokens: int) -> None:
        """Raises UserError for a row that the server would cut, and the model would not."""
        if self.longest < min(tokens, self.context):
            what = f"its --max-model-len={self.longest} would cut a row of {tokens} tokens"
            raise UserError(self._wrong(self.config, self.model, what))

    @classmethod
    def check(cls, rollout: RolloutConfig, model: ModelConfig, decodings: Sequence[Decoding]) -> None:
        """Raises UserError for settings that vLLM cannot follow, and if there is no server that can serve the run."""
        check_vllm(rollout, decodings)
        if not torch.cuda.is_available():
            raise UserError(
                f"rollout.engine={rollout.engine} sends the weights from GPU to GPU, and this machine has none; "
                f"leave it out"
            )
        cls.check_server(rollout, model)

    @classmethod
    def check_server(cls, rollout: RolloutConfig, model: ModelConfig) -> None:
        """Raises UserError if there is no server, or one that serves something else or takes no weights."""
        if rollout.server is None:
            raise UserError(
                f"rollout.engine={rollout.engine} needs rollout.server=http://HOST:PORT, the address of a server that "
                f"was started with `{cls.command(rollout, model)}`"
            )
        if urlsplit(rollout.server).scheme not in ("http", "https") or urlsplit(rollout.server).port is None:
            raise UserError(f"rollout.server={rollout.server} is no address; it must be like http://HOST:PORT")
        with cls._named_errors(rollout, model):
            served = _served(rollout)
            if model.name not in served:
                raise UserError(
                    cls._wrong(rollout, model, f"it serves {', '.join(served)}, not model.name={model.name}")
                )
            refusal = requests.post(f"{rollout.server}/init_weight_transfer_engine", json={"init_info": {}}, timeout=60)
            if refusal.status_code == 404:
                raise UserError(cls._wrong(rollout, model, "it is not in dev mode and takes no weights"))
            if cls.receiver not in refusal.text:  # which says whose the missing values are
                raise UserError(cls._wrong(rollout, model, f"it takes no weights by {cls.backend}"))
            alone = {"model": model.name, "prompt": [0], "max_tokens": 1, "allowed_token_ids": [0], **AS_NUMBERS}
            first = _response(_answer("POST", f"{rollout.server}/v1/completions", alone)["choices"][0])
            if first.logprobs.logprobs != [0]:
                raise UserError(cls._wrong(rollout, model, "its log-probs are not those of what it samples from"))

    @classmethod
    def command(cls, rollout: RolloutConfig, model: ModelConfig) -> str:
        """What starts a server that serves this configuration."""
        located = locate(model)
        words = {
            "--model": located.path,
            "--served-model-name": model.name,
            "--port": str(urlsplit(rollout.server or "").port or 8000),
            "--dtype": model.precision,
            "--hf-overrides": json.dumps({"head_dtype": "float32"}),
            "--logprobs-mode": "processed_logprobs",
            "--generation-config": "vllm",
            "--max-num-seqs": str(rollout.rows_per_batch),
            "--load-format": "dummy",
            "--weight-transfer-config": json.dumps({"backend": cls.backend}),
        }
        flags = ["--skip-tokenizer-init"]
        if model.revision:
            words["--revision"] = model.revision
        if model.trust_remote_code:
            flags.append("--trust-remote-code")
        given = [word for pair in words.items() for word in pair]
        start = "VLLM_SERVER_DEV_MODE=1 python -m vllm.entrypoints.openai.api_server"
        return f"{start} {shlex.join([*given, *flags])}"

    def sync(self, policy: Policy, version: int) -> None:
        """Sends the policy's weights; all processes together."""
        self.source.policy, self.version = policy, version
        with self._named_errors(self.config, self.model):
            if self.transfer.is_sender:
                self._call("POST", "pause?mode=wait")
            if policy.device.type == "cuda":  # the sender's stream waits for no other, such as the optimiser's
                torch.cuda.synchronize(policy.device)
            self.transfer.send_weights()
            if self.transfer.is_sender:
                self._call("POST", "update_weight_version", {"new_version": f"{uuid4()}/{version}"})
                self._call("POST", "reset_prefix_cache")
                self._call("POST", "resume")
            if torch.distributed.is_initialized():
                torch.distributed.barrier()
            self.given = self._call("GET", "weight_info")["weight_version"]

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        responses_per_prompt: int,
        sampling: Sampling,
        seed: int,
        numbers: Sequence[int] | None = None,
    ) -> Rollouts:
        """Samples `responses_per_prompt` responses to each prompt, one request for each; the results lie on the CPU."""
        greedy = sampling.temperature == 0  # vLLM refuses several greedy responses, which would all be the same
        requested = {
            "model": self.model.name,
            "n": 1 if greedy else responses_per_prompt,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "min_p": sampling.min_p,
            "stop_token_ids": self.stop_tokens,
            "repetition_penalty": 1.0,
            **AS_NUMBERS,
        }

        def answered(prompt: Sequence[int], number: int) -> list[Any]:
            self._check_room(len(prompt) + sampling.max_response_tokens)
            room = min(sampling.max_response_tokens, self.longest - len(prompt))
            of_prompt = {"prompt": list(prompt), "max_tokens": room, "seed": _seed(seed, number)}
            with self.connections:
                return list(self._call("POST", "v1/completions", {**requested, **of_prompt})["choices"])

        side_by_side = max(1, self.config.rows_per_batch // responses_per_prompt)
        with self._named_errors(self.config, self.model), ThreadPoolExecutor(side_by_side) as threads:
            answers = list(threads.map(answered, prompts, numbers or range(len(prompts))))
            responses = [_response(choice) for choices in answers for choice in choices]
            now = self._call("GET", "weight_info")["weight_version"]
        if now != self.given:
            raise UserError(
                f"rollout.server={self.config.server}: another run gave it other weights, or it was started again; "
                f"give each run a server of its own, and go on with resume=true"
            )
        copies = responses_per_prompt if greedy else 1
        return rollouts_of(prompts, [response for response in responses for _ in range(copies)], self.version)

    def close(self) -> None:
        """Ends what the server is still doing for this run, and leaves it."""
        if self.transfer.is_sender:
            with suppress(requests.RequestException):
                self._call("POST", "abort_requests", {})
                self._call("POST", "shutdown_weight_transfer_engine")
        self.transfer.shutdown()

    def _connected(self) -> Any:
        """The sender of weights of vLLM's own, which has met the server's workers."""
        from vllm.distributed.weight_transfer.clients import HTTPVLLMWeightSyncClient
        from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory

        address, port = self._meeting_place()
        size = 1 + int(self._call("GET", "get_world_size")["world_size"])
        rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
        client = HTTPVLLMWeightSyncClient(str(self.config.server), SECONDS_TO_ANSWER)
        where = self.meeting()(address, port, size, rank=rank)
        return WeightTransferTrainerFactory.trainer_init(where, client=client, source=self.source)

    @staticmethod
    def meeting() -> Any:
        """The class that says where trainer and workers meet: address, port, how many they are, and the rank here."""
        from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

        return NCCLTrainerInitInfo

    def _meeting_place(self) -> tuple[str, int]:
        """The address of this machine as the server sees it, and a free port."""
        server = urlsplit(str(self.config.server))
        with socket.create_connection((server.hostname, server.port), SECONDS_TO_CONNECT) as reached:
            address = reached.getsockname()[0]
        with socket.socket() as free:
            free.bind(("", 0))
            return address, free.getsockname()[1]

    def _call(self, method: str, path: str, content: Mapping[str, Any] | None = None) -> Any:
        return _answer(method, f"{self.config.server}/{path}", content)

    @classmethod
    @contextmanager
    def _named_errors(cls, rollout: RolloutConfig, model: ModelConfig) -> Iterator[None]:
        """Turns errors of the server and the connection into one line that names the key and the command."""
        try:
            yield
        except requests.HTTPError as error:
            message = one_line(error.response.text if error.response is not None else error)
            raise UserError(cls._wrong(rollout, model, f"it refused: {message}")) from None
        except requests.ConnectionError:
            raise UserError(cls._wrong(rollout, model, "no server answers there")) from None
        except (requests.RequestException, OSError) as error:
            raise UserError(cls._wrong(rollout, model, one_line(error))) from None

    @classmethod
    def _wrong(cls, rollout: RolloutConfig, model: ModelConfig, what: str) -> str:
        return f"rollout.server={rollout.server}: {what}; start it with `{cls.command(rollout, model)}`"


@dataclass
class _Source:
    """What vLLM calls a weight source: the policy's weights as a checkpoint has them, in the server's dtype."""

    policy: Policy
    dtype: torch.dtype

    def __post_init__(self) -> None:
        # A tied head goes over too: what the server prepared from it does not follow by itself.
        self.names = {name for name, _ in self.policy.model.named_parameters(remove_duplicate=False)}
        self.described = [
            SimpleNamespace(name=name, dtype=weight.dtype, shape=tuple(weight.shape)) for name, weight in self
        ]

    def metadata(self) -> list[SimpleNamespace]:
        """What will come, in its order."""
        return self.described

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        weights = checkpoint_weights(resharded(self.policy).merged().model, self.names)
        return ((name, weight.detach().to(self.dtype)) for name, weight in weights)


def _served(rollout: RolloutConfig) -> dict[str, int]:
    """The longest prompt with its response, by model."""
    return {model["id"]: int(model["max_model_len"]) for model in _answer("GET", f"{rollout.server}/v1/models")["data"]}


def _seed(seed: int, number: int) -> int:
    """Of a prompt's first response; vLLM adds the number of the response."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0] >> np.uint64(2))


def _response(choice: Mapping[str, Any]) -> SimpleNamespace:
    """A response as vLLM's own have it."""
    if choice["finish_reason"] not in ("stop", "length"):
        raise requests.RequestException(f"a response ended by {choice['finish_reason']}")
    logprobs = SimpleNamespace(logprobs=choice["logprobs"]["token_logprobs"])
    return SimpleNamespace(token_ids=choice["token_ids"], logprobs=logprobs, finish_reason=choice["finish_reason"])


def _answer(method: str, address: str, content: Mapping[str, Any] | None = None) -> Any:
    """What the server answers. Raises requests.RequestException."""
    limits = (SECONDS_TO_CONNECT, SECONDS_TO_ANSWER)
    answer = requests.request(method, address, json=content, timeout=limits)
    answer.raise_for_status()
    return answer.json() if answer.content else None
