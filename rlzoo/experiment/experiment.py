"""A configuration checked against itself, its tokenizer and its task, before any model loads."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from objectives import OF_TURNS, UNREPORTED, Objective, parse
from rlzoo.config import Config, ModelConfig
from rlzoo.errors import UserError
from rlzoo.experiment.first_check import check_words
from rlzoo.experiment.old_logp import check_old_logp, refuse_comparison
from rlzoo.experiment.output import output_folder
from rlzoo.experiment.prompts import check_prompts, check_readable, without_long_prompts
from rlzoo.experiment.teacher import check_teacher, check_teacher_is_read, check_teacher_is_there
from rlzoo.experiment.trial import try_objective
from rlzoo.model.tokenizer import Tokenizer, load_tokenizer
from rlzoo.rollout import check_engine, engine_class
from rlzoo.rollout.environment import environment_of
from rlzoo.rollout.memory import warn_of_cache
from rlzoo.rollout.sampler import SingleTurn
from rlzoo.tasks import load_task
from rlzoo.tasks.base import Problem, Task


@dataclass(frozen=True)
class Experiment:
    """Everything a run starts from."""

    config: Config
    objective: Objective
    tokenizer: Tokenizer
    task: Task
    folder: Path

    @property
    def updates_per_step(self) -> int:
        """Optimiser updates over the rollouts of one step."""
        return self.objective.pass_count * self.config.train.minibatches_per_step

    @property
    def held_out(self) -> Sequence[Problem]:
        """The held-out problems that evaluations use."""
        return self.task.held_out[: self.config.evaluation.problems]

    def problems(self, start: int, count: int) -> list[Problem]:
        """Training problems `start` to `start + count` of an endless stream that is shuffled anew for each epoch."""
        size = len(self.task.train)
        chosen = []
        for epoch in range(start // size, (start + count - 1) // size + 1):
            order = epoch_order(size, self.config.seed, epoch)
            first = epoch * size
            chosen += order[max(0, start - first) : max(0, start + count - first)]
        return [self.task.train[i] for i in chosen]

    def counting(self) -> list[str]:
        """The arithmetic of a step in words."""
        rollout, train, updates = self.config.rollout, self.config.train, self.updates_per_step
        responses = rollout.prompts_per_step * rollout.responses_per_prompt
        sampled = f"{counted(rollout.prompts_per_step, 'prompt')} x {counted(rollout.responses_per_prompt, 'response')}"
        learnt = f"{counted(self.objective.pass_count, 'pass')} x {counted(train.minibatches_per_step, 'mini-batch')}"
        each = counted(responses // train.minibatches_per_step, "response")
        in_all = f"{counted(train.steps * responses, 'rollout')}, {counted(train.steps * updates, 'update')}"
        return [
            f"{sampled} = {counted(responses, 'rollout')}",
            f"{learnt} of {each} = {counted(updates, 'update')}",
            f"{counted(train.steps, 'step')} = {in_all}",
        ]

    def learning_rate(self) -> str:
        """How fast it learns, in words."""
        train = self.config.train
        warmup = f", reached in {counted(train.warmup_steps, 'step')}" if train.warmup_steps else ""
        after = "" if train.schedule == "constant" else f", falling towards 0 ({train.schedule})"
        return f"{train.learning_rate:g}{warmup}{after}"


def counted(number: int, thing: str) -> str:
    """`1 step`, `2 steps`, `1,000 passes`."""
    plural = "" if number == 1 else "es" if thing.endswith(("s", "ch")) else "s"
    return f"{number:,} {thing}{plural}"


def epoch_order(size: int, seed: int, epoch: int) -> list[int]:
    """The order of the training problems in one epoch."""
    generator = torch.Generator().manual_seed(step_seed(seed, epoch, "epoch"))
    return list(torch.randperm(size, generator=generator).tolist())


def step_seed(seed: int, step: int, purpose: str) -> int:
    """A seed for one purpose at one step, so that a resumed run draws what an uninterrupted one would have drawn."""
    digest = hashlib.blake2b(f"{seed}/{step}/{purpose}".encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big")


def check(config: Config) -> Experiment:
    """Checks everything that can be checked without weights. Raises UserError or ObjectiveError."""
    check_words(config)
    check_engine(config)
    objective = parse(config.objective)
    check_objective(objective, config)
    _check_reference_is_read(objective, config.model)
    check_teacher_is_read(objective, config.model, config.task)
    _check_stale(objective, config)
    check_old_logp(objective, config)
    try_objective(objective, config.rollout)
    folder = output_folder(config, objective)
    tokenizer = load_tokenizer(config.model, config.task)
    warn_of_cache(config.rollout, config.model, tokenizer)
    task = load_task(config.task, config.seed, config.evaluation.problems, tokenizer.is_rendered)
    if config.rollout.drop_long_prompts:
        task = without_long_prompts(task, config.rollout.max_prompt_tokens, tokenizer)
    experiment = Experiment(config, objective, tokenizer, task, folder)
    if not len(task.train) or not len(task.held_out):
        raise UserError(f"task.name={config.task.name} has {len(task.train)} problems, {len(task.held_out)} held out")
    drawn = (config.train.steps + config.rollout.ahead) * config.rollout.prompts_per_step
    size = len(task.train)
    draws_any = objective.refills or config.rollout.partial_tokens
    training = experiment.problems(0, size if draws_any else min(drawn, size))
    check_prompts(config.model, config.rollout, tokenizer, [*training, *experiment.held_out])
    check_readable(config.model, tokenizer, training)
    if "logp_teacher" in objective.needs:
        check_teacher(config, tokenizer, training)
    return experiment


def check_objective(objective: Objective, config: Config) -> None:
    """Refuses an objective that the rollouts, the reference and the teacher of a configuration cannot serve."""
    group, reference = config.rollout.responses_per_prompt, config.model.reference
    if group < objective.learning_group:
        part = next(part.name for part in objective.parts if part.learning_group > group)
        raise UserError(
            f"rollout.responses_per_prompt={group}: {part} compares the responses of a group and needs at least "
            f"{objective.learning_group}"
        )
    if "logp_ref" in objective.needs and reference == "none":
        readers = [part.name for part in objective.parts if "logp_ref" in part.needs]
        raise UserError(
            f"objective={objective}: {readers[0]} needs a reference model, but model.reference=none; "
            f"set model.reference=initial, or remove the part with -{readers[0]}"
        )
    check_teacher_is_there(objective, config.model, config.task)
    refuse_comparison(objective, config)
    _check_turns(objective, config)


def _check_turns(objective: Objective, config: Config) -> None:
    """Raises UserError if a part reads what only rows of several turns have, and the task's have one."""
    read = objective.needs & (OF_TURNS | {"writer"})
    if not read or environment_of(config.task).has_turns:
        return
    reader = next(part.name for part in objective.parts if part.needs & read)
    what = "the rewards and states of turns" if read & OF_TURNS else "what an environment answers"
    raise UserError(
        f"objective={objective}: {reader} reads {what}, but a response to task.name={config.task.name} is one turn; "
        f"set task.tools or task.environment, or remove the part with -{reader}"
    )


def _check_stale(objective: Objective, config: Config) -> None:
    """Refuses rollouts of older policies of which nobody would know what the objective reads."""
    rollout = config.rollout
    if not rollout.may_be_stale:
        return
    _check_partial(objective, config)
    if rollout.ahead and not environment_of(config.task).grades_tokens:
        raise UserError(
            f"rollout.ahead={rollout.ahead}: the environment of task.name={config.task.name} makes rewards as it goes, "
            f"and none of rollouts that a checkpoint has kept; leave rollout.ahead out"
        )
    if rollout.top_p < 1:
        raise UserError(
            f"{rollout.stale}: with rollout.top_p={rollout.top_p:g} an older policy's log-probs, which the engine "
            f"reports, are those of the nucleus, and the policy's of all tokens; set rollout.top_p=1, or leave "
            f"{rollout.stale} out"
        )
    refuse_unreported(objective, config)


def refuse_unreported(objective: Objective, config: Config) -> None:
    """Raises UserError if the objective reads what no engine reports of an older policy, where rollouts are such."""
    rollout = config.rollout
    if not rollout.may_be_stale:
        return
    for field, what in UNREPORTED.items():
        if field in objective.needs:
            raise UserError(
                f"{rollout.stale}: a part of {objective} reads {what} at rollout time, which no engine "
                f"reports of an older policy; leave it out"
            )
    if "entropy_old" in objective.needs and not engine_class(rollout.engine).sees_entropy:
        raise UserError(
            f"{rollout.stale}: a part of {objective} reads the entropy at rollout time, which "
            f"rollout.engine={rollout.engine} does not see of an older policy; leave it out"
        )


def _check_partial(objective: Objective, config: Config) -> None:
    """Raises UserError where responses are not made in one go, or where groups are dropped and others sampled."""
    key = f"rollout.partial_tokens={config.rollout.partial_tokens}"
    if not config.rollout.partial_tokens:
        return
    if environment_of(config.task).__call__ is not SingleTurn.__call__:
        raise UserError(
            f"{key}: the environment of task.name={config.task.name} writes in a response, which cannot be put aside "
            f"in the middle; leave rollout.partial_tokens out"
        )
    if objective.refills:
        part = next(part.name for part in objective.parts if getattr(part, "refills", False))
        raise UserError(
            f"{key}: {part} of {objective} samples further groups in place of others, and groups that wait are not "
            f"among these; remove it with -{part}, or leave rollout.partial_tokens out"
        )


def _check_reference_is_read(objective: Objective, model: ModelConfig) -> None:
    if "logp_ref" not in objective.needs and model.reference not in ("initial", "none"):
        raise UserError(
            f"model.reference={model.reference} has no effect: no part of {objective} reads a reference; "
            f"add +kl, or leave it out"
        )
