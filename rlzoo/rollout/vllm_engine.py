"""Sampling with vLLM, in the trainer's own process."""

import errno
import hashlib
import logging
import os
import random
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from packaging.version import Version

from rlzoo.config import ModelConfig, RolloutConfig
from rlzoo.config.decoding import Decoding
from rlzoo.errors import UserError, nearest, one_line
from rlzoo.model.policy import Policy
from rlzoo.model.sharding import is_sharded, resharded
from rlzoo.model.tokenizer import Tokenizer
from rlzoo.rollout.base import Rollouts, Sampling, checkpoint_weights
from rlzoo.rollout.memory import GIB, set_aside_gib, shape_of
from rlzoo.rollout.traits import VllmTraits

OLDEST = "0.32"
"""The oldest release with all that is used here: a float32 head for generation, and the cache's size in bytes."""
TEMPERATURES = (0.01, 2.0)
"""What vLLM samples at: it raises lower ones to the lowest, except 0, and refuses higher ones."""
TOKENS_PER_FORWARD = 8192
SET_HERE = frozenset(
    {
        *(
            "model",
            "tokenizer",
            "load_format",
            "skip_tokenizer_init",
            "generation_config",
            "trust_remote_code",
            "dtype",
        ),
        *("hf_overrides", "logprobs_mode", "max_model_len", "max_num_seqs", "kv_cache_memory_bytes"),
        *("gpu_memory_utilization", "enable_sleep_mode", "distributed_executor_backend"),
        *("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"),
    }
)
"""Arguments of vLLM that follow from other keys, or that an engine within the trainer's process cannot have."""

# In this process the weights need no transport, the scheduling is deterministic and the generators can be seeded.
os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
# What vLLM warns about at its start is what is chosen below; VLLM_LOGGING_LEVEL=INFO shows it all.
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
logging.getLogger("vllm").setLevel(os.environ["VLLM_LOGGING_LEVEL"])


def check_vllm(rollout: RolloutConfig, decodings: Sequence[Decoding]) -> None:
    """Raises UserError for settings that vLLM cannot follow, and if it is missing, broken or too old."""
    coldest, hottest = TEMPERATURES
    evaluated = [("evaluation.decodings", decoding.temperature) for decoding in decodings]
    for key, value in (("rollout.temperature", rollout.temperature), *evaluated):
        if value != 0 and not coldest <= value <= hottest:
            raise UserError(f"{key}={value:g}: vLLM samples at {coldest} to {hottest}, or at 0")
    _check_installation(rollout.engine)


def _check_installation(engine: str) -> None:
    try:
        import vllm
        from vllm import LLM  # noqa: F401  (what is wrong with an installation shows here)
    except ModuleNotFoundError as error:
        missing = "vllm is not installed" if error.name == "vllm" else f"vllm lacks {error.name}"
        raise UserError(
            f"rollout.engine={engine}: {missing}; pip install 'rlzoo-llm[vllm]' on a GPU machine (one without needs "
            f"the set-up of `make test-vllm`), or set rollout.engine=transformers"
        ) from None
    except Exception as error:  # a binary that does not fit its torch or its machine raises whatever it stumbles over
        raise UserError(f"rollout.engine={engine}: vllm cannot be imported: {one_line(error)}") from None
    if Version(vllm.__version__) < Version(OLDEST):
        raise UserError(
            f"rollout.engine={engine}: vllm {vllm.__version__} is too old; pip install 'vllm>={OLDEST}', or set "
            f"rollout.engine=transformers"
        )


def check_arguments(given: Mapping[str, Any]) -> None:
    """Raises UserError for arguments that vLLM does not know, and for those that rlzoo sets itself."""
    if not given:
        return
    from vllm import EngineArgs

    known = {field.name for field in fields(EngineArgs)}
    for name in given:
        if name in SET_HERE:
            raise UserError(f"rollout.engine_args.{name}: rlzoo sets it from its own keys; leave it out")
        if name not in known:
            raise UserError(f"rollout.engine_args.{name}: vLLM has no such argument{nearest(name, known, most=1)}")


class VllmEngine(VllmTraits):
    """Samples with vLLM's own copy of the weights, in the trainer's calculation dtype and with a float32 head.

    The same weights, prompts and seed give the same responses: vLLM draws from this process's generators, which are
    seeded for each call, and forgets the prompts of earlier calls, but for those of the same conversation. On a GPU
    that holds as far as its kernels are deterministic. A response also depends on the others of its call. On a GPU the
    engine gives its memory back between calls, or conversations, and takes the policy's weights again when it wakes;
    sharded ones, which take all processes, at once when they change, and sleeps with them in the machine's memory.
    """

    def __init__(
        self,
        policy: Policy,
        tokenizer: Tokenizer,
        config: RolloutConfig,
        model: ModelConfig,
        version: int = 0,
    ) -> None:
        self.stop_tokens = sorted(tokenizer.stop_tokens)
        self.dtype = torch.bfloat16 if model.precision == "bfloat16" else torch.float32
        self.sleeps_here = policy.device.type == "cuda"
        self.asleep, self.keeps_weights, self.goes_on = False, is_sharded(policy), False
        self.llm = _start(policy, tokenizer, config, model, sleep_mode=self.sleeps_here)
        # A tied head goes over too where vLLM has one: what it prepared from the head does not follow by itself.
        self.parameters = self.llm.apply_model(_parameter_names)[0]
        self.sync(policy, version)

    @classmethod
    def check(cls, rollout: RolloutConfig, model: ModelConfig, decodings: Sequence[Decoding]) -> None:
        """Raises UserError for settings that vLLM cannot follow, and if it is missing, broken or too old."""
        check_vllm(rollout, decodings)
        check_arguments(rollout.engine_args)

    def sync(self, policy: Policy, version: int) -> None:
        """Takes over the policy's weights; a sleeping engine does so when it wakes, unless it keeps them."""
        self.policy, self.version = policy, version
        if not self.asleep:
            self._load_weights()
        elif self.keeps_weights:
            self.llm.wake_up(tags=["weights"])
            self._load_weights()
            self.llm.sleep(level=1)

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        responses_per_prompt: int,
        sampling: Sampling,
        seed: int,
        numbers: Sequence[int] | None = None,
    ) -> Rollouts:
        """Samples `responses_per_prompt` responses to each prompt; the results lie on the CPU.

        The first of the `numbers` alone has a say: vLLM's draws are those of a whole call, not of a prompt.
        """
        from vllm import SamplingParams, TokensPrompt

        greedy = sampling.temperature == 0  # vLLM refuses several greedy responses, which would all be the same
        parameters = SamplingParams(
            n=1 if greedy else responses_per_prompt,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            max_tokens=sampling.max_response_tokens,
            stop_token_ids=self.stop_tokens,
            ignore_eos=True,
            logprobs=0,
            flat_logprobs=True,
            detokenize=False,
        )
        with self._awake(), _seeded(seed + (numbers[0] if numbers else 0)):
            if not self.goes_on:
                self._forget()
            inputs = [TokensPrompt(prompt_token_ids=list(prompt)) for prompt in prompts]
            outputs = self.llm.generate(inputs, parameters, use_tqdm=False)
        copies = responses_per_prompt if greedy else 1
        responses = [response for output in outputs for response in output.outputs for _ in range(copies)]
        return rollouts_of(prompts, responses, self.version)

    @contextmanager
    def conversation(self) -> Iterator[None]:
        """A context for calls whose prompts continue rows of earlier calls. Earlier tokens are not calculated again."""
        with self._awake():
            self._forget()
            self.goes_on = True
            try:
                yield
            finally:
                self.goes_on = False

    def _forget(self) -> None:
        """Drops keys and values: they are of older weights, or were rounded differently."""
        self.llm.reset_prefix_cache()

    def close(self) -> None:
        """Ends vLLM; the default process group, which it shares with the trainer, ends with it."""
        self.llm.llm_engine.engine_core.shutdown()

    def _load_weights(self) -> None:
        weights = checkpoint_weights(resharded(self.policy).merged().model, self.parameters)
        iterator = ((name, weight.to(self.dtype)) for name, weight in weights)
        self.llm.collective_rpc("reload_weights", kwargs={"weights_iterator": iterator})

    @contextmanager
    def _awake(self) -> Iterator[None]:
        """Holds memory only meanwhile: the weights come before the cache, so that there is room to convert them."""
        if self.asleep:
            torch.cuda.empty_cache()
            self.llm.wake_up(tags=["weights"])
            if not self.keeps_weights:
                self._load_weights()
            self.llm.wake_up(tags=["kv_cache"])
            self.asleep = False
        yield
        if self.sleeps_here and not self.goes_on:
            self.llm.sleep(level=1 if self.keeps_weights else 2)
            self.asleep = True


def _start(policy: Policy, tokenizer: Tokenizer, config: RolloutConfig, model: ModelConfig, sleep_mode: bool) -> Any:
    """An engine for the policy's architecture; its weights are random until the first sync."""
    from vllm import LLM

    length = config.max_prompt_tokens + config.max_response_tokens
    distributed = torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1
    architecture = type(policy.model).__name__
    chosen = {
        "max_num_batched_tokens": max(TOKENS_PER_FORWARD, config.rows_per_batch),
        "enforce_eager": policy.device.type == "cpu",  # compiling takes a minute and saves little there
        **config.engine_args,
    }
    cache_gib = set_aside_gib(config, VllmEngine.kv_cache_gib, model, shape_of(model), length)
    try:
        with _seeded(0), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            return LLM(
                str(_architecture_folder(policy.model.config)),
                **chosen,
                load_format="dummy",
                skip_tokenizer_init=True,
                generation_config="vllm",
                trust_remote_code=model.trust_remote_code,
                dtype=str(torch.bfloat16 if model.precision == "bfloat16" else torch.float32).removeprefix("torch."),
                # The policy's head is exact too; in bfloat16 log-probs would be a fifth further from the policy's.
                hf_overrides={"head_dtype": "float32", "architectures": [architecture]},
                logprobs_mode="processed_logprobs",
                max_model_len=min(length, tokenizer.context_length or length),
                max_num_seqs=config.rows_per_batch,
                kv_cache_memory_bytes=int(cache_gib * GIB),
                gpu_memory_utilization=0.01,  # without effect beside the cache's size, but checked against what is free
                enable_sleep_mode=sleep_mode,
                distributed_executor_backend="external_launcher" if distributed else None,
            )
    except Exception as error:  # whatever the libraries underneath stumble over
        raise _unusable(error, cache_gib, model, architecture) from None


def _architecture_folder(config: Any) -> Path:
    """Where vLLM reads the architecture from: beside what it compiles, whose key has this path in it.

    One configuration has one folder, so that the next start, and every other process, finds what was compiled.
    """
    from vllm import envs

    content = config.to_json_string(use_diff=False)
    parent = Path(envs.VLLM_CACHE_ROOT) / "rlzoo"
    folder = parent / hashlib.sha256(content.encode()).hexdigest()[:16]
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as made:
        config.save_pretrained(Path(made) / folder.name)
        try:
            (Path(made) / folder.name).rename(folder)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # another process was first
                raise
    return folder


def _parameter_names(model: torch.nn.Module) -> set[str]:
    return {name for name, _ in model.named_parameters(remove_duplicate=False)}


def _unusable(error: Exception, cache_gib: float, model: ModelConfig, architecture: str) -> UserError:
    message = one_line(error).partition(" Try ")[0]
    size = f"rollout.kv_cache_gib={cache_gib:g}"
    if "KV cache is needed" in message or "No available memory for the cache" in message:
        return UserError(f"{size} is too small for one prompt and response; raise it: {message}")
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or "less than requested memory for kv" in message:
        return UserError(f"{size} and the weights do not fit into memory; lower it: {message}")
    return UserError(f"rollout.engine=vllm: vLLM cannot start with {model.name} ({architecture}): {message}")


def rollouts_of(prompts: Sequence[Sequence[int]], responses: Sequence[Any], version: int) -> Rollouts:
    """What vLLM returned, the responses to one prompt side by side, as tensors."""
    lengths = torch.tensor([len(response.token_ids) for response in responses])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    tokens = torch.tensor([token for response in responses for token in response.token_ids])
    logp = torch.tensor([value for response in responses for value in response.logprobs.logprobs])
    logp = torch.zeros(mask.shape).masked_scatter(mask, logp)
    return Rollouts(
        prompts=prompts,
        prompt=torch.arange(len(prompts)).repeat_interleave(len(responses) // len(prompts)),
        tokens=torch.zeros(mask.shape, dtype=torch.long).masked_scatter(mask, tokens),
        lengths=lengths,
        mask=mask,
        logp=logp,
        entropy=0.0 - logp,
        truncated=torch.tensor([response.finish_reason == "length" for response in responses]),
        version=version * mask.long(),
    )


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seeds the generators that vLLM draws from, and puts them back as they were."""
    python, numpy = random.getstate(), np.random.get_state()
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    hashed = int(np.random.SeedSequence(seed).generate_state(1)[0])  # torch's CPU generator reads no more than 32 bits
    with torch.random.fork_rng(devices):
        torch.manual_seed(hashed)
        np.random.seed(hashed)
        yield
    random.setstate(python)
    np.random.set_state(numpy)
