"""Problems in, graded responses out: the part of the loop that training and evaluation share."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rlzoo.rollout.base import RolloutEngine, Rollouts, Sampling
from rlzoo.tasks.base import Grade, Problem
from rlzoo.tasks.grading import GraderPool
from rlzoo.tokenizer import Tokenizer


@dataclass(frozen=True)
class GradedRollouts:
    """The responses to some problems with their grades; [N] as in `rollouts`.

    `outcomes` says how each grade came about: graded, truncated, timed_out or failed.
    """

    problems: Sequence[Problem]
    rollouts: Rollouts
    texts: Sequence[str]
    reward: Tensor
    correct: Tensor
    outcomes: Sequence[str]
    seconds: dict[str, float] = field(default_factory=dict)

    def problem_of(self, row: int) -> Problem:
        """The problem that a response answers."""
        return self.problems[int(self.rollouts.prompt[row])]


@dataclass(frozen=True)
class Sampler:
    """Samples responses to problems and grades them. A truncated response is wrong whatever it says."""

    engine: RolloutEngine
    graders: GraderPool
    tokenizer: Tokenizer
    wrong_reward: float

    def __call__(self, problems: Sequence[Problem], responses: int, sampling: Sampling, seed: int) -> GradedRollouts:
        """`responses` responses to each problem, the responses to one problem side by side."""
        started = time.perf_counter()
        prompts = [self.tokenizer.encode(problem.prompt) for problem in problems]
        rollouts = self.engine.generate(prompts, responses, sampling, seed)
        sampled = time.perf_counter()
        lengths = rollouts.lengths.tolist()
        texts = [self.tokenizer.decode(row[:n]) for row, n in zip(rollouts.tokens.tolist(), lengths, strict=True)]
        grades, outcomes = self._grade(problems, rollouts, texts)
        return GradedRollouts(
            problems=problems,
            rollouts=rollouts,
            texts=texts,
            reward=torch.tensor([grade.reward for grade in grades]),
            correct=torch.tensor([grade.correct for grade in grades]),
            outcomes=outcomes,
            seconds={"generate": sampled - started, "grade": time.perf_counter() - sampled},
        )

    def _grade(
        self, problems: Sequence[Problem], rollouts: Rollouts, texts: Sequence[str]
    ) -> tuple[list[Grade], list[str]]:
        complete = [row for row, truncated in enumerate(rollouts.truncated.tolist()) if not truncated]
        asked = [problems[int(rollouts.prompt[row])] for row in complete]
        graded = self.graders.grade(asked, [texts[row] for row in complete])
        grades = [Grade(self.wrong_reward, 0.0)] * len(texts)
        outcomes = ["truncated"] * len(texts)
        for row, result in zip(complete, graded, strict=True):
            grades[row], outcomes[row] = result.grade, result.outcome
        return grades, outcomes
