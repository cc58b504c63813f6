"""A task by hand: a person types what the model would write, and everything else is as in training."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch.nn.utils.rnn import pad_sequence

from rlzoo.config import Config
from rlzoo.experiment.check import check_words
from rlzoo.experiment.experiment import step_seed
from rlzoo.inspecting.task_look import drawn_problems
from rlzoo.model.tokenizer import Tokenizer, load_tokenizer
from rlzoo.rollout.base import Rollouts, Sampling
from rlzoo.rollout.environment import environment_opened
from rlzoo.rollout.sampler import GradedRollouts
from rlzoo.tasks import load_task
from rlzoo.tasks.grading import GraderPool

Write = Callable[[str], str]
"""Gives a turn in the model's place, and is told what the model would have read by then and had not read before."""


class Typist:
    """An engine whose policy is a person, who writes one response at a time; only `generate` is called."""

    def __init__(self, tokenizer: Tokenizer, write: Write) -> None:
        self.tokenizer, self.write = tokenizer, write
        self.read: list[int] = []
        """What the person has read and written of a conversation."""

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        responses_per_prompt: int,
        sampling: Sampling,
        seed: int,
        numbers: Sequence[int] | None = None,
    ) -> Rollouts:
        """What the person writes to each prompt; each of its tokens was certain."""
        rows = [self._written(list(prompt), sampling.max_response_tokens) for prompt in prompts]
        lengths = torch.tensor([len(row) for row in rows])
        tokens = pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
        mask = torch.arange(tokens.shape[1]) < lengths[:, None]
        ended = torch.tensor([row[-1] in self.tokenizer.stop_tokens for row in rows])
        nothing = torch.zeros(tokens.shape)
        return Rollouts(
            prompts, torch.arange(len(rows)), tokens, lengths, mask, nothing, nothing, ~ended, torch.zeros_like(tokens)
        )

    def _written(self, prompt: list[int], room: int) -> list[int]:
        fresh = prompt[len(self.read) :] if prompt[: len(self.read)] == self.read else prompt
        text, backend = self.write(str(self.tokenizer.backend.decode(fresh))), self.tokenizer.backend
        tokens = [*backend(text, add_special_tokens=False)["input_ids"], backend.eos_token_id][:room]
        self.read = prompt + tokens
        return tokens


def episodes_by_hand(config: Config, write: Write, begin: Callable[[int], None]) -> Iterator[GradedRollouts]:
    """One episode after the other of the problems that training would draw first, each with its grade.

    `begin` is told the number of each, from 1. What `write` raises ends it, and so does the last problem. Raises
    UserError for what cannot be had or used.
    """
    check_words(config)
    tokenizer = load_tokenizer(config.model, config.task)
    task = load_task(config.task, config.seed, is_rendered=tokenizer.is_rendered)
    sampling = Sampling(config.rollout.max_response_tokens)
    with GraderPool.of(config.task, task.grader) as graders:
        typist = Typist(tokenizer, write)
        with environment_opened(config.task, typist, graders, tokenizer) as environment:  # type: ignore[arg-type]
            for number, problem in enumerate(drawn_problems(config, task)):
                begin(number + 1)
                yield environment([problem], 1, sampling, step_seed(config.seed, 0, "task"), [number])
