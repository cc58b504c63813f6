"""Problems in, graded responses out: the part of the loop that training and evaluation share."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from rlzoo.model.tokenizer import Tokenizer
from rlzoo.rollout.base import RolloutEngine, Rollouts, Sampling
from rlzoo.rollout.stop import cut_at_stop
from rlzoo.tasks.base import Grade, Problem
from rlzoo.tasks.grading import GraderPool
from rlzoo.tasks.text import BEGUN


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
    """Samples responses to problems and grades them. A truncated response is graded as if it were empty.

    With `grade_truncated` its text is graded; its outcome stays truncated.
    """

    engine: RolloutEngine
    graders: GraderPool
    tokenizer: Tokenizer
    grade_truncated: bool = False

    def __call__(
        self,
        problems: Sequence[Problem],
        responses: int,
        sampling: Sampling,
        seed: int,
        numbers: Sequence[int] | None = None,
    ) -> GradedRollouts:
        """`responses` responses to each problem, side by side; `numbers` are the problems' among those of all ranks."""
        started = time.perf_counter()
        rollouts = self.engine.generate(self.prompts(problems), responses, sampling, seed, numbers)
        sampled = time.perf_counter()
        graded = self.graded(problems, rollouts, sampling.stop)
        return replace(graded, seconds={"generate": sampled - started, "grade": time.perf_counter() - sampled})

    def prompts(self, problems: Sequence[Problem]) -> list[list[int]]:
        """What the model reads of them."""
        return [self.tokenizer.encode(problem.prompt) for problem in problems]

    def graded(self, problems: Sequence[Problem], rollouts: Rollouts, stop: Sequence[str] = ()) -> GradedRollouts:
        """The responses to the `problems`, which are in the order of `rollouts.prompts`, cut at `stop` and graded."""
        problems = [self._with_what_is_begun(*pair) for pair in zip(problems, rollouts.prompts, strict=True)]
        rollouts, texts = cut_at_stop(rollouts, stop, self.tokenizer.decode)
        grades, outcomes = self._grade(problems, rollouts, texts)
        return GradedRollouts(
            problems=problems,
            rollouts=rollouts,
            texts=texts,
            reward=torch.tensor([grade.reward for grade in grades]),
            correct=torch.tensor([grade.correct for grade in grades]),
            outcomes=outcomes,
        )

    def _with_what_is_begun(self, problem: Problem, prompt: Sequence[int]) -> Problem:
        """The problem as its grader has to know it: a chat template may have opened a tag of the response."""
        begun = self.tokenizer.begun(prompt)
        return replace(problem, data={**problem.data, BEGUN: begun}) if begun else problem

    def _grade(
        self, problems: Sequence[Problem], rollouts: Rollouts, texts: Sequence[str]
    ) -> tuple[list[Grade], list[str]]:
        asked = [problems[number] for number in rollouts.prompt.tolist()]
        truncated = rollouts.truncated.tolist()
        empty = [cut and not self.grade_truncated for cut in truncated]
        graded = self.graders.grade(asked, ["" if cut else text for text, cut in zip(texts, empty, strict=True)])
        outcomes = ["truncated" if cut else one.outcome for one, cut in zip(graded, truncated, strict=True)]
        return [one.grade for one in graded], outcomes
