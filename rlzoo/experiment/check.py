"""A configuration checked from top to bottom: `check(config)` gives the experiment, or one line says what to change.

The order is that of cost. `check_words` needs no torch, so a wrong word is reported at once; then come the objective
and what rollouts, reference and teacher serve it; a small batch; the folder; and last tokenizer, task and prompts. No
model loads. Each check is given the sections or values that it reads.
"""

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from objectives import OF_TURNS, UNREPORTED, Objective, parse
from objectives.parts.advantages import check_overlong
from rlzoo.config.decoding import read_decodings
from rlzoo.config.sections import Config, LoraConfig, ModelConfig, RolloutConfig, TaskConfig, TrainConfig
from rlzoo.errors import UserError, nearest
from rlzoo.model.pretrained import POLICY, as_reference, as_teacher, errors_naming, locate, refuse_idle_revision
from rlzoo.rollout import check_engine, check_engine_name, engine_traits
from rlzoo.tasks import check_task, load_task, refuse_idle_splits
from rlzoo.tasks.base import Problem
from rlzoo.tasks.environment_class import tool_keys
from rlzoo.tasks.text import prompt_key

if TYPE_CHECKING:  # what needs torch is imported where it is first used
    from rlzoo.experiment.experiment import Experiment
    from rlzoo.model.tokenizer import Tokenizer

_logger = logging.getLogger(__name__)
_ALONE = ("aim", "clearml", "comet_ml", "dvclive", "mlflow", "swanlab", "trackio", "wandb")
TRACKERS = {"tensorboard": ("tensorboard", "tensorboardX"), **{name: (name,) for name in _ALONE}}
"""What Accelerate reports to -> the packages that do it. One must be installed."""
TEACHER = "logp_teacher"
ENGINES_OLD_LOGP = "rollout.old_logp=engine"
UNREADABLE = 0.5
"""The share of unknown tokens from which on a model cannot read its prompts."""
READ = 256
"""How many prompts are looked at for that."""


def check(config: Config, before: "Experiment | None" = None) -> "Experiment":
    """Checks everything that can be checked without weights. Raises UserError or ObjectiveError.

    Tokenizer and problems are those of the experiment `before` it, if that has the same model, task and limits.
    """
    check_words(config)
    from rlzoo.experiment.claim import output_folder
    from rlzoo.experiment.experiment import Experiment, without_long_prompts
    from rlzoo.experiment.run_folder import RunFolder
    from rlzoo.experiment.trial import try_objective
    from rlzoo.model.tokenizer import load_tokenizer

    check_engine(config)
    objective = parse(config.objective)
    check_objective(objective, config.model, config.task, config.rollout)
    if not config.resume:
        check_overlong(objective.parts, "rollout.max_response_tokens", config.rollout.max_response_tokens)
    _check_is_read(objective, config.model, config.task)
    _check_stale(objective, config.task, config.rollout)
    check_old_logp(objective, config.rollout)
    try_objective(objective, config.rollout)
    folder = output_folder(config, objective)
    alike = before if before and _data_keys(before.config) == _data_keys(config) else None
    if alike:
        tokenizer, task = alike.tokenizer, alike.task
    else:
        tokenizer = load_tokenizer(config.model, config.task)
        task = load_task(config.task, config.seed, config.evaluation.problems, tokenizer.is_rendered)
        if config.rollout.drop_long_prompts:
            task = without_long_prompts(task, config.rollout.max_prompt_tokens, tokenizer)
    if not len(task.train) or not len(task.held_out):
        raise UserError(f"task.name={config.task.name} has {len(task.train)} problems, {len(task.held_out)} held out")
    experiment = Experiment(config, objective, tokenizer, task, folder)
    training = experiment.drawn
    if not alike or len(training) > len(alike.drawn):
        check_prompts(config.model, config.rollout, tokenizer, [*training, *experiment.held_out])
        _check_readable(config.model, tokenizer, training)
    if TEACHER in objective.needs:
        check_teacher(config.model, config.task, config.rollout, tokenizer, training)
    is_known = RunFolder(folder).has_steps or (alike and "logp_ref" in alike.objective.needs)
    if "logp_ref" in objective.needs and not is_known:
        _check_reference(config.model, config.rollout, tokenizer, training)
    return experiment


def _data_keys(config: Config) -> tuple[object, ...]:
    """What decides tokenizer, problems, their order, and which prompts are too long."""
    rollout = config.rollout
    limits = rollout.max_prompt_tokens, rollout.max_response_tokens, rollout.drop_long_prompts
    return config.model, config.task, config.seed, config.evaluation.problems, limits


# ---- words, before torch is imported ---------------------------------------------------------------------------------


def check_words(config: Config) -> None:
    """Checks what keys say together, the objective, names of the model and the task, trackers and packages.

    Raises UserError or ObjectiveError.
    """
    check_keys(config)
    parse(config.objective)
    check_engine_name(config.rollout.engine)
    _check_trackers(config.log.trackers)
    locate(config.model)
    for key, other in (("model.teacher", as_teacher(config.model)), ("model.reference", as_reference(config.model))):
        if other is not None:
            with errors_naming(key):
                locate(other)
    _check_packages(config.model.lora)
    check_task(config.task)
    if not config.resume:  # earlier versions took and recorded these
        refuse_idle_revision(config.model)
        refuse_idle_splits(config.task)
    check_response_limit(config)


def check_response_limit(config: Config) -> None:
    """Refuses a model without a limit on the length of its responses. Raises UserError."""
    if not config.rollout.max_response_tokens:
        raise UserError(
            f"rollout.max_response_tokens=0: model.name={config.model.name} needs a limit; give the tokens that a "
            f"response to task.name={config.task.name} may take, such as rollout.max_response_tokens=1024"
        )


def check_keys(config: Config) -> None:
    """Refuses keys that no run could use together. Raises UserError naming them and what is allowed."""
    model, train, rollout = config.model, config.train, config.rollout
    if not config.output.strip():
        raise UserError("output= is empty; give it a value, or leave it out")
    if model.attention.startswith("flash") and model.precision == "float32":
        raise UserError(f"model.attention={model.attention} needs model.precision=bfloat16")
    _check_lora(model.lora, train.sharding)
    _check_sharding(train)
    if model.compile and train.sharding != "none":
        raise UserError(
            f"model.compile=true is not supported for sharded models; leave it or train.sharding={train.sharding} out"
        )
    _check_partial_tokens(rollout)
    read_decodings(config.evaluation.decodings)
    if "" in config.evaluation.stop:
        raise UserError(
            "evaluation.stop has an empty text, which would end every response before it begins; take it out, or write "
            r"""a list of texts in quotes: 'evaluation.stop=["\n\n"]'"""
        )
    if train.minibatches_per_step > rollout.prompts_per_step:
        raise UserError(
            f"train.minibatches_per_step={train.minibatches_per_step} exceeds "
            f"rollout.prompts_per_step={rollout.prompts_per_step}; groups are never split"
        )


def _check_partial_tokens(rollout: RolloutConfig) -> None:
    part, whole = rollout.partial_tokens, rollout.max_response_tokens
    key = f"rollout.partial_tokens={part}"
    if not whole:
        return
    if part >= whole:
        raise UserError(f"{key} has no effect with rollout.max_response_tokens={whole}; leave it out, or take fewer")
    if part and whole % part:
        near = min((n for n in range(1, whole) if whole % n == 0), key=lambda n: abs(n - part))
        raise UserError(f"{key} does not divide rollout.max_response_tokens={whole}; {near} does")
    if part and rollout.ahead:
        raise UserError(
            f"{key} has responses go on in later steps, which rollout.ahead={rollout.ahead} would sample "
            f"before; leave one of them out"
        )


def _check_lora(lora: LoraConfig, sharding: str) -> None:
    if lora.rank and sharding != "none":
        raise UserError(f"model.lora.rank={lora.rank}: adapters are not sharded; leave train.sharding={sharding} out")
    for key, value in (("alpha", lora.alpha), ("targets", lora.targets)):
        if value and not lora.rank:
            raise UserError(
                f"model.lora.{key}={value} has no effect without model.lora.rank; set that, or leave it out"
            )


def _check_sharding(train: TrainConfig) -> None:
    if train.shards and train.sharding == "none":
        raise UserError(
            f"train.shards={train.shards} has no effect without train.sharding=fsdp; set that, or leave it out"
        )


def _check_packages(lora: LoraConfig) -> None:
    if lora.rank and find_spec("peft") is None:
        raise UserError(
            f"model.lora.rank={lora.rank} needs the package peft; pip install 'rlzoo-llm[lora]', or leave it out"
        )


def _check_trackers(names: Sequence[str]) -> None:
    """Refuses trackers that there are not, or that are not installed. Raises UserError."""
    for name in names:
        if name not in TRACKERS:
            known = nearest(name, TRACKERS) or f"; there are {', '.join(sorted(TRACKERS))}"
            raise UserError(f"log.trackers={name}: there is no such tracker{known}")
        if not any(map(find_spec, TRACKERS[name])):
            package = TRACKERS[name][0].replace("_", "-")
            raise UserError(f"log.trackers={name} is not installed; pip install {package}, or leave it out")
    if "wandb" in names and not _has_wandb_key():
        raise UserError(
            "log.trackers=wandb: there is no API key; run wandb login, or set WANDB_MODE=offline, which keeps records "
            "in wandb/ of the run's folder"
        )


def _has_wandb_key() -> bool:
    """Whether wandb needs no key or has one: in the environment, in netrc, or for a server of its settings."""
    if os.environ.get("WANDB_MODE", "online") not in ("online", "run", "shared"):
        return True
    if any(os.environ.get(name) for name in ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE", "WANDB_BASE_URL")):
        return True
    home = Path.home()
    config = Path(os.environ.get("WANDB_CONFIG_DIR", home / ".config" / "wandb"))
    files = [Path(os.environ.get("NETRC", home / ".netrc")), home / "_netrc", config / "settings"]
    said = "".join(file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file())
    return "wandb" in said or "base_url" in said or "api_key" in said


def with_modules_named(config: Config) -> Config:
    """The configuration with the module before each part from outside: the next process knows it by that alone."""
    objective = parse(config.objective)
    named = [f"{part.origin}:{part.name}" for part in objective.parts if part.origin]
    is_named = all(name in config.objective for name in named)
    return config if is_named else replace(config, objective=str(objective))


# ---- what cannot act -------------------------------------------------------------------------------------------------

ONE_UPDATE = "each step makes one update, of the policy that sampled, and every ratio is 1"
TWO_UPDATES = "train.minibatches_per_step=2"


def is_on_policy(config: Config, objective: Objective) -> bool:
    """Whether every update is one of the policy that sampled, so that no ratio leaves 1."""
    updates = objective.pass_count * config.train.minibatches_per_step
    return updates == 1 and not config.rollout.may_be_stale and config.rollout.old_logp == "policy"


def acting(config: Config, objective: Objective) -> Objective:
    """The objective without the parts that cannot act under these settings."""
    return objective.on_policy if is_on_policy(config, objective) else objective


def idle_parts(config: Config, objective: Objective) -> str:
    """Says which parts cannot act under these settings, why, and what would let them; empty if all can."""
    if not (is_on_policy(config, objective) and objective.idle_on_policy):
        return ""
    names = ", ".join(objective.idle_on_policy)
    return f"cannot act: {names}: {ONE_UPDATE}; {TWO_UPDATES} makes two of the same rollouts"


# ---- the objective, and what it is given -----------------------------------------------------------------------------


def check_objective(objective: Objective, model: ModelConfig, task: TaskConfig, rollout: RolloutConfig) -> None:
    """Refuses an objective that rollouts, reference and teacher cannot serve. Raises UserError."""
    group = rollout.responses_per_prompt
    if group < objective.learning_group:
        part = next(part.name for part in objective.parts if part.learning_group > group)
        raise UserError(
            f"rollout.responses_per_prompt={group}: {part} compares the responses of a group and needs at least "
            f"{objective.learning_group}"
        )
    if "logp_ref" in objective.needs and model.reference == "none":
        reader = _reader(objective, {"logp_ref"})
        raise UserError(
            f"objective={objective}: {reader} needs a reference model, but model.reference=none; "
            f"set model.reference=initial, or remove the part with -{reader}"
        )
    _check_teacher_is_there(objective, model.teacher, task.teacher_prompt)
    _refuse_comparison(objective, rollout)
    _check_turns(objective, task)


def _reader(objective: Objective, fields: set[str] | frozenset[str]) -> str:
    """The first part that reads one of these fields."""
    return next(part.name for part in objective.parts if part.needs & fields)


def _check_teacher_is_there(objective: Objective, teacher: str, template: str) -> None:
    """Raises UserError if a part reads a teacher and there is none, or a template that says nothing."""
    from rlzoo.experiment.experiment import ANSWER, PROMPT

    if TEACHER in objective.needs and teacher == POLICY and not template:
        raise UserError(
            f"objective={objective}: {_reader(objective, {TEACHER})} needs a teacher; set model.teacher to a model, or "
            f"task.teacher_prompt to what the model itself may know more, as in '{PROMPT} (the answer is {ANSWER})'"
        )
    if template and PROMPT not in template:
        raise UserError(f"task.teacher_prompt={template!r} has no {PROMPT}; put it where the prompt goes")
    if template.strip() == PROMPT:
        raise UserError(f"task.teacher_prompt={template!r} says no more than the prompt; add {ANSWER}, or leave it out")


def _check_turns(objective: Objective, task: TaskConfig) -> None:
    """Raises UserError if a part reads what only rows of several turns have, and the task's have one."""
    read = objective.needs & (OF_TURNS | {"writer"})
    if not read or tool_keys(task):
        return
    reader = _reader(objective, read)
    what = "the rewards and states of turns" if read & OF_TURNS else "what an environment answers"
    raise UserError(
        f"objective={objective}: {reader} reads {what}, but a response to task.name={task.name} is one turn; "
        f"set task.tools or task.environment, or remove the part with -{reader}"
    )


def _check_is_read(objective: Objective, model: ModelConfig, task: TaskConfig) -> None:
    """Raises UserError for keys of a reference or a teacher that no part of the objective reads."""
    given = {
        ("model.reference", "logp_ref", "kl"): "" if model.reference in ("initial", "none") else model.reference,
        ("model.teacher", TEACHER, "opd"): "" if model.teacher == POLICY else model.teacher,
        ("task.teacher_prompt", TEACHER, "opd"): task.teacher_prompt,
    }
    for (key, field, part), value in given.items():
        if value and field not in objective.needs:
            what = "a reference" if field == "logp_ref" else "a teacher"
            raise UserError(
                f"{key}={value} has no effect: no part of {objective} reads {what}; add +{part}, or leave it out"
            )


def _check_stale(objective: Objective, task: TaskConfig, rollout: RolloutConfig) -> None:
    """Raises UserError if rollouts of older policies would lack something that the objective reads."""
    if not rollout.may_be_stale:
        return
    _check_partial(objective, task, rollout.partial_tokens)
    if rollout.ahead and tool_keys(task):
        raise UserError(
            f"rollout.ahead={rollout.ahead}: the environment of task.name={task.name} makes rewards as it goes, "
            f"and none of rollouts that a checkpoint has kept; leave rollout.ahead out"
        )
    if rollout.top_p < 1:
        raise UserError(
            f"{rollout.stale}: with rollout.top_p={rollout.top_p:g} an older policy's log-probs, which the engine "
            f"reports, are those of the nucleus, and the policy's of all tokens; set rollout.top_p=1, or leave "
            f"{rollout.stale} out"
        )
    refuse_unreported(objective, rollout)


def _check_partial(objective: Objective, task: TaskConfig, partial_tokens: int) -> None:
    """Raises UserError where responses are not made in one go, or where groups are dropped and others sampled."""
    key = f"rollout.partial_tokens={partial_tokens}"
    if not partial_tokens:
        return
    if tool_keys(task):
        raise UserError(
            f"{key}: the environment of task.name={task.name} writes in a response, which cannot be put aside "
            f"in the middle; leave rollout.partial_tokens out"
        )
    if objective.refills:
        part = next(part.name for part in objective.parts if getattr(part, "refills", False))
        raise UserError(
            f"{key}: {part} of {objective} samples further groups in place of others, and groups that wait are not "
            f"among these; remove it with -{part}, or leave rollout.partial_tokens out"
        )


def refuse_unreported(objective: Objective, rollout: RolloutConfig) -> None:
    """Raises UserError if the objective reads what no engine reports of an older policy, where rollouts are such."""
    if not rollout.may_be_stale:
        return
    for field, what in UNREPORTED.items():
        if field in objective.needs:
            raise UserError(
                f"{rollout.stale}: a part of {objective} reads {what} at rollout time, which no engine "
                f"reports of an older policy; leave it out"
            )
    if "entropy_old" in objective.needs and not engine_traits(rollout.engine).sees_entropy:
        raise UserError(
            f"{rollout.stale}: a part of {objective} reads the entropy at rollout time, which "
            f"rollout.engine={rollout.engine} does not see of an older policy; leave it out"
        )


def check_old_logp(objective: Objective, rollout: RolloutConfig) -> None:
    """Raises UserError for the engine's old log-probs where they change nothing, or are of another distribution."""
    if rollout.old_logp == "policy":
        return
    if rollout.may_be_stale:
        raise UserError(
            f"{ENGINES_OLD_LOGP} is for rollouts of the newest policy, and {rollout.stale} trains on those of older "
            f"ones, whose old log-probs are the engine's anyway; leave it out"
        )
    if rollout.top_p < 1:
        raise UserError(
            f"{ENGINES_OLD_LOGP}: with rollout.top_p={rollout.top_p:g} the engine's log-probs are those of the "
            f"nucleus, and the policy's of all tokens; set rollout.top_p=1, or rollout.old_logp=policy"
        )
    _refuse_comparison(objective, rollout)
    seen = {"entropy_old"} if engine_traits(rollout.engine).sees_entropy else set()
    if not objective.needs & {"logp_old", "logp", "entropy", *seen}:
        raise UserError(
            f"{ENGINES_OLD_LOGP} has no effect: no part of {objective} reads what rollout.engine={rollout.engine} "
            f"reports in place of the policy; leave it out"
        )


def _refuse_comparison(objective: Objective, rollout: RolloutConfig) -> None:
    """Raises UserError if a part compares old log-probs with the engine's and both are the same."""
    if rollout.old_logp == "policy" and not rollout.may_be_stale:
        return
    setting = rollout.stale or ENGINES_OLD_LOGP
    for part in objective.parts:
        if part.needs | part.reads_once_moved >= {"logp_old", "logp_sampler"}:
            raise UserError(
                f"{setting}: {part.name} of {objective} compares the policy's log-probs with the engine's, and would "
                f"get the engine's for both; leave {setting} out, or remove the part with -{part.name}"
            )


def check_shards(train: TrainConfig, processes: int) -> None:
    """Raises UserError if the number of processes is no multiple of `train.shards`."""
    if train.shards is not None and processes % train.shards:
        started = f"{processes} process{'es' * (processes > 1)}"
        raise UserError(
            f"train.shards={train.shards}: {started} cannot be dealt over copies of {train.shards} each; start a "
            f"multiple of that, or leave it out"
        )


# ---- prompts ---------------------------------------------------------------------------------------------------------


def check_prompts(
    model: ModelConfig,
    rollout: RolloutConfig,
    tokenizer: "Tokenizer",
    problems: Sequence[Problem],
    what: str = "the prompt",
) -> None:
    """Refuses prompts without a token, and those too long for the limit, or for the context with a full response."""
    limit, response, context = rollout.max_prompt_tokens, rollout.max_response_tokens, tokenizer.context_length
    distinct = {prompt_key(problem.prompt): problem for problem in problems}  # some data repeat theirs a hundred times
    for problem in distinct.values():
        length = len(tokenizer.encode(problem.prompt))
        if not length:
            raise UserError(f"{what} of problem {problem.id} has no tokens; leave it out")
        if length > limit:
            raise UserError(
                f"{what} of problem {problem.id} has {length} tokens, more than rollout.max_prompt_tokens={limit}; "
                f"raise it, or leave the problem out (rollout.drop_long_prompts=true does so in training)"
            )
        if context is not None and length + response > context:
            raise UserError(
                f"{what} of problem {problem.id} has {length} tokens, which with rollout.max_response_tokens="
                f"{response} exceeds the context of {model.name}, {context} tokens"
            )


def _check_readable(model: ModelConfig, tokenizer: "Tokenizer", problems: Sequence[Problem]) -> None:
    """Refuses prompts most of whose tokens are unknown to the tokenizer; where some are, a warning says so."""
    tokens, unknown = count_unknown(tokenizer, problems[:READ])
    if unknown > UNREADABLE * tokens:
        raise UserError(
            f"model.name={model.name} cannot read the prompts of this task: {unknown / tokens:.0%} of their tokens are "
            f"unknown to its tokenizer; choose a model that knows them, or another task.name"
        )
    if unknown:
        _logger.warning("%d of %d prompt tokens are unknown to the tokenizer of %s", unknown, tokens, model.name)


def count_unknown(tokenizer: "Tokenizer", problems: Sequence[Problem]) -> tuple[int, int]:
    """The tokens of their prompts, and how many of these are unknown to the tokenizer."""
    prompts = [tokenizer.encode(problem.prompt) for problem in problems]
    return sum(map(len, prompts)), sum(map(tokenizer.unknown, prompts))


def check_teacher(
    model: ModelConfig, task: TaskConfig, rollout: RolloutConfig, tokenizer: "Tokenizer", problems: Sequence[Problem]
) -> None:
    """Raises UserError for a teacher with another vocabulary, and for what it cannot read of the problems."""
    from rlzoo.experiment.experiment import teacher_prompt
    from rlzoo.model.tokenizer import load_tokenizer

    other, template = as_teacher(model), task.teacher_prompt
    if other is not None:
        with errors_naming("model.teacher"):
            theirs = load_tokenizer(other)
        if theirs.backend.get_vocab() != tokenizer.backend.get_vocab():
            raise UserError(_other_vocabulary("model.teacher", other, model))
        model, tokenizer = other, replace(tokenizer, context_length=theirs.context_length)
    if template and any(isinstance(it.prompt, str) and tokenizer.is_rendered(it.prompt) for it in problems):
        raise UserError(
            f"task.teacher_prompt={template!r} cannot be filled: the prompts of this dataset are rendered with a "
            f"chat template already; leave it out"
        )
    informed = [replace(problem, prompt=teacher_prompt(template, problem)) for problem in problems]
    check_prompts(model, rollout, tokenizer, informed, "the teacher's prompt (task.teacher_prompt)")


def _check_reference(
    model: ModelConfig, rollout: RolloutConfig, tokenizer: "Tokenizer", problems: Sequence[Problem]
) -> None:
    """Raises UserError for a reference whose tokens are others, or whose context is too short for the problems.

    One that has weights alone reads with the policy's tokenizer.
    """
    from rlzoo.model.tokenizer import load_tokenizer

    if (other := as_reference(model)) is None:
        return
    try:
        theirs = load_tokenizer(other)
    except UserError:
        return
    named = {number: token for token, number in theirs.backend.get_vocab().items()}
    if any(named.get(number, token) != token for token, number in tokenizer.backend.get_vocab().items()):
        raise UserError(_other_vocabulary("model.reference", other, model))
    with_context = replace(tokenizer, context_length=theirs.context_length)
    check_prompts(other, rollout, with_context, problems, f"model.reference={other.name}: the prompt")


def _other_vocabulary(key: str, other: ModelConfig, model: ModelConfig) -> str:
    return (
        f"{key}={other.name} has another vocabulary than model.name={model.name}: a token of one means nothing to the "
        f"other, so choose a model of the same family"
    )
