"""Prompts and the limits that they have to keep."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rlzoo.config import ModelConfig, RolloutConfig
from rlzoo.errors import UserError
from rlzoo.model.tokenizer import Tokenizer
from rlzoo.tasks.base import Grader, Problem, Task
from rlzoo.tasks.text import prompt_key

UNREADABLE = 0.5
"""The share of unknown tokens from which on a model cannot read its prompts."""
READ = 256
"""How many prompts are looked at for that."""

_logger = logging.getLogger(__name__)


def check_prompts(
    model: ModelConfig,
    rollout: RolloutConfig,
    tokenizer: Tokenizer,
    problems: Sequence[Problem],
    what: str = "the prompt",
) -> None:
    """Refuses prompts without a token, and those too long for the limit, or for the context with a full response."""
    limit, response, context = rollout.max_prompt_tokens, rollout.max_response_tokens, tokenizer.context_length
    for problem in _distinct(problems).values():
        length = len(tokenizer.encode(problem.prompt))
        if not length:
            raise UserError(f"{what} of problem {problem.id} has no token, behind which to answer; leave it out")
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


def check_readable(model: ModelConfig, tokenizer: Tokenizer, problems: Sequence[Problem]) -> None:
    """Refuses prompts most of whose tokens are unknown to the tokenizer; where some are, a warning says so."""
    tokens, unknown = count_unknown(tokenizer, problems[:READ])
    if unknown > UNREADABLE * tokens:
        raise UserError(
            f"model.name={model.name} cannot read the prompts of this task: {unknown / tokens:.0%} of their tokens are "
            f"unknown to its tokenizer; choose a model that knows them, or another task.name"
        )
    if unknown:
        _logger.warning("%d of %d prompt tokens are unknown to the tokenizer of %s", unknown, tokens, model.name)


def count_unknown(tokenizer: Tokenizer, problems: Sequence[Problem]) -> tuple[int, int]:
    """The tokens of their prompts, and how many of these are unknown to the tokenizer."""
    prompts = [tokenizer.encode(problem.prompt) for problem in problems]
    return sum(map(len, prompts)), sum(map(tokenizer.unknown, prompts))


def without_long_prompts(task: Task, limit: int, tokenizer: Tokenizer) -> Task:
    """The task without the training problems whose prompts are longer than the limit; a warning counts them.

    Held-out problems stay, as accuracies on others could not be compared. Raises UserError if none is left.
    """
    train = task.train
    long = {key for key, it in _distinct(train).items() if len(tokenizer.encode(it.prompt)) > limit}
    kept = [problem for problem in train if prompt_key(problem.prompt) not in long]
    if not kept:
        raise UserError(f"rollout.max_prompt_tokens={limit}: all training prompts are longer; raise it")
    if not long:
        return task
    dropped = len(train) - len(kept)
    _logger.warning("%d of %d training problems have more than %d prompt tokens; dropped", dropped, len(train), limit)
    return _Selected(task, kept)


@dataclass(frozen=True)
class _Selected:
    """A task with some of its training problems."""

    task: Task
    train: Sequence[Problem]

    @property
    def name(self) -> str:
        return self.task.name

    @property
    def held_out(self) -> Sequence[Problem]:
        return self.task.held_out

    @property
    def grader(self) -> Grader:
        return self.task.grader

    def final_answer(self, problem: Problem, response: str) -> str | None:
        return self.task.final_answer(problem, response)


def _distinct(problems: Iterable[Problem]) -> dict[object, Problem]:
    """A problem for each prompt: some datasets repeat theirs a hundred times."""
    return {prompt_key(problem.prompt): problem for problem in problems}
