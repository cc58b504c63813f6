"""Problems in, graded rows out: the seam for environments, and the one that has a single turn."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor
from torch.profiler import record_function

from rlzoo.errors import UserError
from rlzoo.model.tokenizer import Tokenizer
from rlzoo.rollout.base import RolloutEngine, Rollouts, Sampling
from rlzoo.rollout.stop import cut_at_stop
from rlzoo.tasks.base import Grade, Problem
from rlzoo.tasks.grading import Graded, GraderPool
from rlzoo.tasks.text import BEGUN, goes_on

PHASES = ("generate", "grade", "score", "plan", "train", "sync")
"""What a step is made of, by the names that `timings.jsonl` and a trace have for it."""
MODEL_PHASES = ("generate", "score", "train")
"""Those in which the model calculates."""


def span(phase: str) -> record_function:
    """A span `rlzoo/PHASE` in a trace by torch's profiler; untraced, it costs ten microseconds."""
    return record_function(f"rlzoo/{phase}")


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
    rewards: Tensor | None = None
    """[N, K] what each reward function gave, where there are several."""
    figures: Mapping[str, Tensor] = field(default_factory=dict)
    """[N] each: what an environment counts, such as turns."""
    credit: Mapping[str, Tensor] = field(default_factory=dict)
    """[N, T] each, by the names that objectives have for them: of several turns `turn`, `turn_reward`, `turn_state`."""
    transcripts: Sequence[str] = ()
    """All that was written behind each prompt, special tokens included, where `texts` are the last turns alone."""

    def problem_of(self, row: int) -> Problem:
        """The problem that a response answers."""
        return self.problems[int(self.rollouts.prompt[row])]


def _rewards(grades: Sequence[Grade]) -> Tensor | None:
    """[N, K]; None where nothing was graded apart. Raises UserError if a grader gives now more and now fewer."""
    counts = {len(grade.rewards) for grade in grades}
    if len(counts) > 1:
        raise UserError(uneven_rewards(counts))
    return torch.tensor([grade.rewards for grade in grades]) if counts - {0} else None


def uneven_rewards(counts: Collection[int]) -> str:
    """Why so many rewards for one response and so many for another cannot be used."""
    several = " and ".join(map(str, sorted(counts)))
    return f"the grader of task.name gives {several} rewards for different responses; it must give as many for each"


@dataclass(frozen=True)
class Environment:
    """Makes graded rows for problems: who makes their tokens, whose these are, and where the reward comes from.

    `rollouts.mask` says which tokens of a row the policy chose; others are context, and no part of the loss.
    """

    grades_text: ClassVar[bool]
    """Whether a reward depends on the problem and the response's text alone, so that a kept one is graded again."""
    grades_tokens: ClassVar[bool]
    """Whether `graded` makes the rewards of rows that were sampled before, so that these may lie in a checkpoint."""

    has_turns: ClassVar[bool] = False
    """Whether rows have `credit`: which turn a token belongs to, what the turn earned, and in which state it began."""

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
        """`responses` rows for each problem, side by side; `numbers` are the problems' among those of all ranks."""
        raise NotImplementedError

    def graded(self, problems: Sequence[Problem], rollouts: Rollouts, stop: Sequence[str] = ()) -> GradedRollouts:
        """Rows that were sampled for the `problems`, which are in the order of `rollouts.prompts`, with their rewards.

        Called where it `grades_tokens`.
        """
        raise NotImplementedError

    def prompts(self, problems: Sequence[Problem]) -> list[list[int]]:
        """What the model reads of them before it writes anything."""
        return [self.tokenizer.encode(problem.prompt) for problem in problems]


@dataclass(frozen=True)
class SingleTurn(Environment):
    """One response to each prompt, all of it the policy's, and a grade of its text.

    A truncated response is graded as if it were empty. With `grade_truncated` its text is graded; its outcome stays
    truncated.
    """

    grades_text = True
    grades_tokens = True

    def __call__(
        self,
        problems: Sequence[Problem],
        responses: int,
        sampling: Sampling,
        seed: int,
        numbers: Sequence[int] | None = None,
    ) -> GradedRollouts:
        """`responses` responses to each problem."""
        started = time.perf_counter()
        with span("generate"):
            rollouts = self.engine.generate(self.prompts(problems), responses, sampling, seed, numbers)
        sampled = time.perf_counter()
        with span("grade"):
            graded = self.graded(problems, rollouts, sampling.stop)
        return replace(graded, seconds={"generate": sampled - started, "grade": time.perf_counter() - sampled})

    def graded(self, problems: Sequence[Problem], rollouts: Rollouts, stop: Sequence[str] = ()) -> GradedRollouts:
        """The responses to the `problems`, which are in the order of `rollouts.prompts`, cut at `stop` and graded."""
        return self._graded(problems, *cut_at_stop(rollouts, stop, self.tokenizer.decode))

    def _graded(self, problems: Sequence[Problem], rollouts: Rollouts, texts: Sequence[str]) -> GradedRollouts:
        problems = [self._with_what_is_begun(*pair) for pair in zip(problems, rollouts.prompts, strict=True)]
        grades, outcomes = self._grade(problems, rollouts, texts)
        return GradedRollouts(
            problems=problems,
            rollouts=rollouts,
            texts=texts,
            reward=torch.tensor([grade.reward for grade in grades]),
            correct=torch.tensor([grade.correct for grade in grades]),
            outcomes=outcomes,
            rewards=_rewards(grades),
        )

    def _with_what_is_begun(self, problem: Problem, prompt: Sequence[int]) -> Problem:
        """The problem as its grader has to know it: with what the prompt has begun of the response.

        That are the model's own words at its end, or a tag that a chat template has opened.
        """
        last = "" if isinstance(problem.prompt, str) else problem.prompt[-1]["content"]
        begun = last if goes_on(problem.prompt) else self.tokenizer.begun(prompt)
        return replace(problem, data={**problem.data, BEGUN: begun}) if begun else problem

    def _grade(
        self, problems: Sequence[Problem], rollouts: Rollouts, texts: Sequence[str]
    ) -> tuple[list[Grade], list[str]]:
        asked = [problems[number] for number in rollouts.prompt.tolist()]
        truncated = rollouts.truncated.tolist()
        empty = [cut and not self.grade_truncated for cut in truncated]
        graded = self._grades(asked, ["" if cut else text for text, cut in zip(texts, empty, strict=True)])
        outcomes = ["truncated" if cut else result.outcome for result, cut in zip(graded, truncated, strict=True)]
        return [result.grade for result in graded], outcomes

    def _grades(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Graded]:
        """Of each row, with its problem and the text that counts."""
        return self.graders.grade(problems, texts)
