"""Makes an embedded model from nothing: a character tokenizer, a small Qwen3, and a task's demonstrations.

The demonstrations of the first part, `clean_fraction`, are right. Those of the rest have random slips, which no model
can foresee, and may be of another kind: those of `sums` mostly have steps in the first part, and mostly answers at once
in the rest.
"""

import math
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import tokenizers
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from rlzoo.config import ModelConfig, RolloutConfig, TaskConfig
from rlzoo.errors import UserError
from rlzoo.files import folder_written_atomically
from rlzoo.lab.keys import WarmupConfig
from rlzoo.model.accelerator import one_thread
from rlzoo.model.policy import load_policy
from rlzoo.model.pretrained import without_progress_bars
from rlzoo.model.tokenizer import Tokenizer, load_tokenizer
from rlzoo.rollout import load_engine
from rlzoo.rollout.base import Sampling
from rlzoo.rollout.sampler import open_sampler
from rlzoo.tasks import demonstrated_task
from rlzoo.tasks.base import DemonstratedTask, DemonstratesTools, Problem
from rlzoo.tasks.grading import GraderPool
from rlzoo.tasks.tools import load_tools

CONTEXT = 128
MAX_RESPONSE_TOKENS = 64
HEAD_WIDTH = 32

_DEMONSTRATION_SEED = 2
_EVALUATION_PROBLEMS, _EVALUATION_SAMPLES = 512, 8

_TEMPLATE = (
    "{# calls are <tool_call>...</tool_call> -#}"
    "{% for message in messages -%}"
    "{{ ':' + message.content + '=' if message.role == 'tool' else message.content }}"
    "{{ eos_token if message.role == 'assistant' }}"
    "{%- endfor %}"
)
"""Of a model that calls tools: a question as it is, turns that end, and what a tool answers between `:` and `=`."""

ShowProgress = Callable[[int, int, float], None]
"""Called with the number of steps done, the number of all steps, and the loss of the last."""


def warmup(config: WarmupConfig, progress: ShowProgress = lambda done, total, loss: None) -> dict[str, float]:
    """Makes the model, writes it to `config.output` and evaluates what was written.

    Returns the final loss, the held-out accuracies `greedy` and `sampled` (avg@8 at temperature 1), the number of
    parameters and the seconds that training took. Raises UserError for a number out of range or a folder that exists.
    """
    _check(config)
    task = demonstrated_task(TaskConfig(config.task.name, options=config.task.options, problems=1))
    target = target_folder(config)
    started = time.perf_counter()
    with one_thread():  # so that the weights do not depend on the number of cores
        model, tokenizer, loss = demonstrated_model(task, config, progress)
    seconds = time.perf_counter() - started
    with folder_written_atomically(target) as folder, without_progress_bars():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        accuracies = evaluate_folder(folder, task)
    return {"loss": loss, **accuracies, "parameters": model.num_parameters(), "seconds": seconds}


def demonstrated_model(
    task: DemonstratedTask, config: WarmupConfig, progress: ShowProgress = lambda done, total, loss: None
) -> tuple[Qwen3ForCausalLM, PreTrainedTokenizerFast, float]:
    """A model that has learnt a task's demonstrations, its tokenizer, and its last loss."""
    tokenizer = tokenizer_of(task)
    model = make_model(config, tokenizer)
    batches = _batches(tokenizer, task, config)
    return model, tokenizer, fit_demonstrations(model, batches, config.steps, config.learning_rate, progress)


def tokenizer_of(task: DemonstratedTask) -> PreTrainedTokenizerFast:
    """What reads and writes a task's demonstrations."""
    if not isinstance(task, DemonstratesTools):
        return make_tokenizer(task.characters)
    tokenizer = make_tokenizer(task.characters, task.pieces)
    tokenizer.chat_template = _TEMPLATE
    return tokenizer


def make_tokenizer(characters: str, pieces: Sequence[str] = ()) -> PreTrainedTokenizerFast:
    """One token per character, and `<unk>`, `<eos>`, `<pad>`.

    Each of the `pieces`, longer texts, is one as well; where there are some, so is all that lies between known ones.
    """
    vocabulary = {token: i for i, token in enumerate([*characters, *pieces, "<unk>", "<eos>", "<pad>"])}
    known = "|".join(map(re.escape, [*pieces, *characters]))
    words = rf"{known}|(?:(?!{known})[\s\S])+" if pieces else r"[\s\S]"
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(words), "isolated")
    backend.decoder = tokenizers.decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token="<unk>",
        eos_token="<eos>",
        pad_token="<pad>",
        padding_side="left",
        model_max_length=CONTEXT,
        model_input_names=["input_ids", "attention_mask"],
    )


def make_model(config: WarmupConfig, tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """A model with random weights."""
    heads = config.hidden_size // HEAD_WIDTH
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return Qwen3ForCausalLM(
            Qwen3Config(
                vocab_size=len(tokenizer),
                hidden_size=config.hidden_size,
                intermediate_size=config.intermediate_size,
                num_hidden_layers=config.layers,
                num_attention_heads=heads,
                num_key_value_heads=heads,
                head_dim=HEAD_WIDTH,
                max_position_embeddings=CONTEXT,
                tie_word_embeddings=True,
                bos_token_id=None,
                eos_token_id=tokenizer.eos_token_id,
                pad_token_id=tokenizer.pad_token_id,
            )
        )


def fit_demonstrations(
    model: PreTrainedModel,
    batches: Iterable[tuple[Tensor, Tensor]],
    steps: int,
    learning_rate: float,
    progress: ShowProgress = lambda done, total, loss: None,
) -> float:
    """Cross-entropy of `steps` batches of inputs and targets, each [N, T] with -100 where nothing is learnt.

    The rate rises to `learning_rate` in a twentieth of the steps and falls to 0 along a cosine. Returns the last loss.
    """
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    loss = math.nan
    for step, (inputs, targets) in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * _schedule(step, steps)
        logits = model(input_ids=inputs, use_cache=False).logits
        cross_entropy = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        cross_entropy.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss = cross_entropy.item()
        progress(step + 1, steps, loss)
    return loss


def _schedule(step: int, steps: int) -> float:
    """The rate's fraction of its highest."""
    return min(1.0, 20 * (step + 1) / steps) * (1 + math.cos(math.pi * step / steps)) / 2


def _batches(
    backend: PreTrainedTokenizerFast, task: DemonstratedTask, config: WarmupConfig
) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and targets [N, T] of every step; a target is the next token if the model writes it, -100 elsewhere."""
    rng, tokenizer = random.Random(config.seed), _wrapped(backend, task)
    problems = task.to_demonstrate(_DEMONSTRATION_SEED + config.seed)
    for step in range(config.steps):
        rate = 0.0 if step < config.clean_fraction * config.steps else config.slip_rate
        batch = islice(problems, config.demonstrations_per_step)
        rows = [encoded(tokenizer, str(problem.prompt), _turns(task, problem, rng, rate)) for problem in batch]
        yield padded_demonstrations(rows, backend.pad_token_id)


def padded_demonstrations(rows: Sequence[tuple[Tensor, Tensor]], padding: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets [N, T - 1] of tokens [T] and which of them the model writes [T]."""
    inputs = pad_sequence([tokens for tokens, _ in rows], batch_first=True, padding_value=padding)
    targets = pad_sequence(
        [tokens.where(written, -100) for tokens, written in rows], batch_first=True, padding_value=-100
    )
    return inputs[:, :-1], targets[:, 1:]


def _turns(task: DemonstratedTask, problem: Problem, rng: random.Random, slip_rate: float) -> list[str]:
    if isinstance(task, DemonstratesTools):
        return task.conversation(problem, rng, slip_rate)
    return [task.demonstration(problem, rng, slip_rate)]


def _wrapped(backend: PreTrainedTokenizerFast, task: DemonstratedTask) -> Tokenizer:
    ends, schemas = frozenset({backend.eos_token_id}), [tool.schema() for tool in load_tools(_keys(task))]
    return Tokenizer(backend, ends, CONTEXT, backend.chat_template is not None, {"tools": schemas} if schemas else {})


def _keys(task: DemonstratedTask) -> TaskConfig:
    return TaskConfig(task.name, tools=tools_of(task))


def tools_of(task: DemonstratedTask) -> list[str]:
    """What a model of its demonstrations has to have as `task.tools`."""
    return list(task.tools) if isinstance(task, DemonstratesTools) else []


def encoded(tokenizer: Tokenizer, prompt: str, turns: Sequence[str]) -> tuple[Tensor, Tensor]:
    """The token ids [T] of a demonstration, as a rollout would have them, and which of them the model writes.

    `turns` are the model's, and between each two of them what a tool answers.
    """
    tokens = tokenizer.encode(prompt)
    is_written = [False] * len(tokens)
    for number, text in enumerate(turns):
        if number % 2:
            written = tokenizer.answered(tokens, [{"role": "tool", "content": text}])
        else:
            written = [*tokenizer.backend(text, add_special_tokens=False)["input_ids"], *tokenizer.stop_tokens]
        tokens += written
        is_written += [number % 2 == 0] * len(written)
    return torch.tensor(tokens), torch.tensor(is_written)


def evaluate_folder(folder: Path, task: DemonstratedTask) -> dict[str, float]:
    """Held-out accuracies of a saved model."""
    model, config = ModelConfig(name=str(folder)), _keys(task)
    tokenizer = load_tokenizer(model, config)
    engine = load_engine(RolloutConfig(), model, load_policy(model, tokenizer), tokenizer)
    problems = task.held_out[:_EVALUATION_PROBLEMS]
    with GraderPool(task.grader) as graders, open_sampler(config, engine, graders, tokenizer) as environment:

        def accuracy(samples: int, temperature: float) -> float:
            sampling = Sampling(MAX_RESPONSE_TOKENS, temperature)
            return float(environment(problems, samples, sampling, seed=0).correct.mean())

        return {"greedy": accuracy(1, 0.0), "sampled": accuracy(_EVALUATION_SAMPLES, 1.0)}


def target_folder(config: WarmupConfig) -> Path:
    """Where the model goes. Raises UserError for a placeholder that is not `{task}`."""
    path = config.output.replace("{task}", config.task.name)
    if "{" in path or "}" in path:
        raise UserError(f"output={config.output}: {{task}} is all that is filled in")
    return Path(path)


def _check(config: WarmupConfig) -> None:
    if target_folder(config).exists():
        raise UserError(f"output={target_folder(config)} exists; remove it, or write to another folder")
    if config.hidden_size % HEAD_WIDTH:
        raise UserError(f"hidden_size={config.hidden_size} must be a multiple of {HEAD_WIDTH}")
    try:
        target_folder(config).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"output={target_folder(config)} cannot be written: {error.strerror}") from None
