"""What a run starts from: configuration, objective, tokenizer and task, once `check` has found that they agree."""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from objectives import Objective
from rlzoo.config import Config
from rlzoo.errors import UserError
from rlzoo.model.tokenizer import Tokenizer
from rlzoo.tasks.base import Problem, Task
from rlzoo.tasks.text import Prompt, asked, asking, prompt_key

PROMPT, ANSWER = "{prompt}", "{answer}"
"""Where a problem's own text goes in a template for the teacher."""
_logger = logging.getLogger(__name__)


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
        """Training problems `start` to `start + count` of an endless stream, shuffled again for each epoch."""
        size = len(self.task.train)
        chosen = []
        for epoch in range(start // size, (start + count - 1) // size + 1):
            order = epoch_order(size, self.config.seed, epoch)
            first = epoch * size
            chosen += order[max(0, start - first) : max(0, start + count - first)]
        return [self.task.train[i] for i in chosen]

    @property
    def drawn(self) -> list[Problem]:
        """The training problems that its steps draw, each once; all, where how many they need is not known."""
        size, rollout, steps = len(self.task.train), self.config.rollout, self.config.train.steps
        draws_any = self.objective.refills or rollout.partial_tokens
        return self.problems(0, size if draws_any else min(size, (steps + rollout.ahead) * rollout.prompts_per_step))

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


def teacher_prompt(template: str, problem: Problem) -> Prompt:
    """What the teacher reads of a problem: the filled template in place of the message that asks."""
    prompt = problem.prompt
    if not template:
        return prompt
    if not isinstance(prompt, str):
        return asking(prompt, _filled(template, asked(prompt), problem.answer))
    return _filled(template, prompt, problem.answer)


def _filled(template: str, prompt: str, answer: str) -> str:
    """The template with both in their places; what looks like a place in the prompt is its text."""
    return answer.join(piece.replace(PROMPT, prompt) for piece in template.split(ANSWER))


def without_long_prompts(task: Task, limit: int, tokenizer: Tokenizer) -> Task:
    """The task without the training problems whose prompts are longer than the limit; a warning counts them.

    Held-out problems stay, as accuracies on others could not be compared. Raises UserError if none is left.
    """
    train = task.train
    distinct = {prompt_key(problem.prompt): problem for problem in train}
    long = {key for key, problem in distinct.items() if len(tokenizer.encode(problem.prompt)) > limit}
    kept = [problem for problem in train if prompt_key(problem.prompt) not in long]
    if not kept:
        raise UserError(f"rollout.max_prompt_tokens={limit}: all training prompts are longer; raise it")
    if not long:
        return task
    dropped = len(train) - len(kept)
    _logger.warning("%d of %d training problems have more than %d prompt tokens; dropped", dropped, len(train), limit)
    return cast(Task, _Selected(task, kept))


@dataclass(frozen=True)
class _Selected:
    """A task with some of its training problems, and all else that it has."""

    task: Task
    train: Sequence[Problem]

    def __getattr__(self, name: str) -> Any:
        if name == "task" or name.startswith("__"):
            raise AttributeError(name)  # where it is made from what was pickled
        return getattr(self.task, name)
