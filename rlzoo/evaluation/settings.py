"""Everything that decides an evaluation, as plain data: what two of them must share to be compared, or to be one."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

from huggingface_hub import try_to_load_from_cache

from rlzoo.config import ColumnsConfig, Config, ModelConfig, TaskConfig, keys
from rlzoo.config.decoding import Decoding
from rlzoo.config.schema import EVALUATES, MACHINE
from rlzoo.experiment.identity import task_sources
from rlzoo.model.pretrained import locate
from rlzoo.model.tokenizer import Tokenizer
from rlzoo.tasks.base import Problem
from rlzoo.tasks.regrading import to_json

_CHUNK = 2**20


def model_settings(config: ModelConfig, tokenizer: Tokenizer) -> dict[str, Any]:
    """The model, by what its files hold or by its commit on the hub, and how it calculates."""
    template = tokenizer.backend.chat_template if tokenizer.uses_template else None
    return {
        "precision": config.precision,
        "attention": config.attention,
        "chat_template": None if template is None else digest([json.dumps(template, sort_keys=True)]),
        "weights": _weights(config),
    }


def settings_of(
    name: str,
    problems: Sequence[Problem],
    samples: int,
    source: TaskConfig,
    decoding: Decoding,
    config: Config,
    tokenizer: Tokenizer,
) -> dict[str, Any]:
    """What decides the responses to a problem set, and their grades, beside the model."""
    decides = [key for key in keys(TaskConfig) if key.read_by & EVALUATES and not key.locates_data]
    decisive = {key.name.partition(".")[0] for key in decides if key.decides is not MACHINE}
    task: dict[str, Any] = {name: value for name, value in vars(source).items() if name in decisive}
    task |= {name: asdict(value) for name, value in task.items() if isinstance(value, ColumnsConfig)}
    return {
        "problem_set": name,
        "task": task,
        "problems": len(problems),
        "samples": samples,
        "decoding": asdict(decoding),
        "stop": list(config.evaluation.stop),
        "max_response_tokens": config.rollout.max_response_tokens,
        "engine": config.rollout.engine,
        "rows_per_batch": config.rollout.rows_per_batch,
        "seed": config.seed,
        "data": digest(
            json.dumps([problem.prompt, problem.answer, to_json(problem.data)], default=dict) for problem in problems
        ),
        "prompts": digest(json.dumps(tokenizer.encode(problem.prompt)) for problem in problems),
        **({"code": sources} if (sources := task_sources(source, config.rollout.engine)) else {}),
    }


def digest(texts: Sequence[str] | Iterator[str]) -> str:
    """Of texts in their order."""
    state = blake2b(digest_size=16)
    for text in texts:
        state.update(text.encode() + b"\0")
    return state.hexdigest()


def _weights(config: ModelConfig) -> str:
    """The digest of a folder's weights and configuration; of a model on the hub the commit, or what was asked for."""
    source = locate(config)
    folder = Path(source.path)
    if not folder.is_dir():
        revision = config.revision or "main"
        cached = try_to_load_from_cache(source.path, "config.json", revision=revision)
        return Path(cached).parent.name if isinstance(cached, str) else revision
    state = blake2b(digest_size=16)
    for file in [folder / "config.json", *sorted(folder.glob("*.safetensors")), *sorted(folder.glob("*.bin"))]:
        state.update(file.name.encode() + b"\0")
        with file.open("rb") as content:
            while chunk := content.read(_CHUNK):
                state.update(chunk)
    return state.hexdigest()
