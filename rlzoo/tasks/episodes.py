"""Episodes: the environment whose rows each have an instance in a process of its own.

So neither a state, nor a call that hangs or ends its process, reaches another episode.
"""

import inspect
import json
import resource
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import blake2b
from typing import Any, ClassVar, Literal, Self

from rlzoo.config import TaskConfig
from rlzoo.errors import one_line
from rlzoo.tasks.base import Grade, Problem
from rlzoo.tasks.environment_class import DONE, REWARD, TURN_REWARD, TURN_STATE, EnvironmentClass, environment_named
from rlzoo.tasks.environments import Answer, Environment, Start, Step, Turn, seed_of
from rlzoo.tasks.grading import Graded, checked_grade
from rlzoo.tasks.reward import RewardFunction, Row, finite_number, load_rewards, shown, weighted, weights_of
from rlzoo.tasks.sandbox import Patience, Request, Sandbox, Work
from rlzoo.tasks.tools import Tool, ToolPool, load_tools, read_calls, seed_generators, shortened, wait_for

SIDE_BY_SIDE = 8
"""Episodes of a core that act at once: those that wait for something cost nothing, those that calculate share its core
and their time."""


def open_environment(config: TaskConfig) -> AbstractContextManager[Environment | None]:
    """Starts what answers the policy between its turns; None if a task has one turn. Raises UserError."""
    if config.environment:
        return EpisodePool.of(config)
    if config.tools:
        return ToolPool(load_tools(config), config.grader_workers, config.tool_timeout)
    return nullcontext()


@dataclass(frozen=True)
class EpisodeSettings:
    """What all episodes share."""

    source: EnvironmentClass
    tools: tuple[Tool, ...]
    rewards: tuple[RewardFunction, ...]
    weights: tuple[float, ...]


class _Episode:
    """An instance in its worker. Whatever the user's code raises, but for a call, comes out."""

    def __init__(self, settings: EpisodeSettings) -> None:
        self.settings = settings
        self.functions = {tool.name: tool.function for tool in settings.tools}

    def __call__(self, method: str, *arguments: Any) -> Any:
        """Calls a method of this class."""
        return getattr(self, method)(*arguments)

    def reset(self, problem: Problem, seed: int) -> dict[str, Any]:
        """Makes the instance and resets it, with seeded generators of Python and numpy; gives the fields of a Step."""
        seed_generators(seed)
        self.problem, self.instance, self.earned = problem, self.settings.source.kind(), 0.0
        shown = wait_for(self.instance.reset(**_columns(self.instance.reset, problem)))
        if shown is not None and not isinstance(shown, str):
            raise TypeError(f"reset returned {one_line(repr(shown))}; it must return text, or None")
        return self._step([Answer(shortened(shown))] if shown else [], reward=0.0)

    def step(self, turn: Turn) -> dict[str, Any]:
        """Answers a turn; gives the fields of a Step."""
        answers = self.settings.source.step(self.instance, turn, self.functions)
        return self._step(answers, self._turn_reward())

    def grade(self, response: str) -> Sequence[Any]:
        """Gives reward, correctness, and the rewards that these are made of, for the text of the last turn."""
        rewards = [reward(self.problem, response, [self.instance]) for reward in self.settings.rewards]
        names = self.settings.source.reward_names
        if REWARD in names:
            rewards.append((_number(REWARD, wait_for(self.instance.get_reward())), None))
        if TURN_REWARD in names:
            unread = _number(TURN_REWARD, vars(self.instance).get(TURN_REWARD, 0.0))
            rewards.append((self.earned + unread, None))
        grade = checked_grade(weighted(rewards, self.settings.weights), self.problem, may_abstain=True)
        return grade.reward, grade.correct, grade.rewards, grade.is_scored

    def _step(self, answers: Sequence[Answer], reward: float) -> dict[str, Any]:
        is_over = self._has(DONE) and bool(getattr(self.instance, DONE))
        return asdict(Step(answers, reward, self._state() if self._has(TURN_STATE) else None, is_over))

    def _has(self, name: str) -> bool:
        """Whether the class of the instance has an attribute; a method of that name is a tool."""
        kind = type(self.instance)
        return hasattr(kind, name) and not inspect.isfunction(getattr(kind, name))

    def _turn_reward(self) -> float:
        """Reads the weighted reward of the turn that has ended; it is the class's own then, until one is set."""
        if TURN_REWARD not in self.settings.source.reward_names:
            return 0.0
        earned = _number(TURN_REWARD, getattr(self.instance, TURN_REWARD))
        vars(self.instance).pop(TURN_REWARD, None)
        self.earned += earned
        return earned * self.settings.weights[-1]

    def _state(self) -> str:
        """A key of the state that is there now."""
        state = getattr(self.instance, TURN_STATE)
        try:
            return blake2b(json.dumps(state, sort_keys=True).encode()).hexdigest()
        except (TypeError, ValueError):
            raise TypeError(
                f"{TURN_STATE} is {one_line(repr(state))}; it must be text, a number, or lists and dictionaries of them"
            ) from None


def _number(name: str, value: Any) -> float:
    try:
        return finite_number(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"the value of {name} is {shown(value)}; it must be a number") from None


def _columns(reset: Any, problem: Problem) -> dict[str, Any]:
    """The columns that `reset` names, or all if it takes any. A task without rows has prompt and answer."""
    parameters = inspect.signature(reset).parameters
    given = {"prompt": problem.prompt, "answer": problem.answer, **Row.of(problem).columns}
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return {name: value for name, value in given.items() if takes_all or name in parameters}


class EpisodePool(Sandbox):
    """The environment of episodes, on `workers` cores; a context manager.

    Each of beginning, a call and the reward may take `timeout` seconds; the calls of a turn have their time together.
    An episode whose process is killed from outside is begun again and does again what it did. A call that raises is
    answered by its error. An episode whose `reset` or reward raises, or which takes too long or ends its process, is
    lost: its calls are answered by an error, and it gets the reward of an episode in which nothing was done, or 0 if
    that has none.
    """

    is_stateful: ClassVar[bool] = True

    def __init__(self, settings: EpisodeSettings, workers: int, timeout: float) -> None:
        self.settings, self.timeout = settings, timeout
        self._tools = [*(tool.name for tool in settings.tools), *settings.source.tools]
        super().__init__(Work(partial(_Episode, settings)), "task.environment", SIDE_BY_SIDE * workers)
        self._begun: list[tuple[Problem, int]] = []
        self._lost: dict[int, str] = {}
        """Row -> what happened to its episode."""

    @classmethod
    def of(cls, config: TaskConfig) -> Self:
        """The pool that a task's configuration describes. Raises UserError for what cannot be used."""
        source = environment_named(config)
        assert source is not None
        settings = EpisodeSettings(source, load_tools(config), load_rewards(config), weights_of(config))
        return cls(settings, config.grader_workers, config.tool_timeout)

    def reset(self, starts: Sequence[Start], seed: int) -> list[Step]:
        """Begins an episode for each row in place of all there were; rows of one problem have the same seed."""
        self._end()
        self._begun = [(start.problem, seed_of(seed, f"episode {start.group}")) for start in starts]
        self._lost = {}
        _allow_files(2 * len(starts) + 512)
        begun = self._begin(range(len(starts)))
        return [begun.get(row, Step([Answer("", is_error=True)])) for row in range(len(starts))]

    def step(self, turns: Mapping[int, Turn]) -> dict[int, Step]:
        """Answers the turn of each of some rows."""
        calls = {row: read_calls(turn, self._tools) for row, turn in turns.items()}
        lost = {row: f"error: the environment is lost: {error}" for row, error in self._lost.items()}
        values = self._ask(
            "step", {row: (turn,) for row, turn in turns.items()}, {row: len(calls[row]) for row in calls}
        )
        steps = {row: _step(value) for row, value in values.items()}
        for row in turns.keys() - steps.keys():
            error = Answer(shortened(lost.get(row, f"error: {self._lost[row]}")), is_error=True)
            steps[row] = Step([error] * len(calls[row]))
        return steps

    def grade(self, texts: Sequence[str]) -> list[Graded]:
        """Grades each row, whose last turn has that text; all episodes end."""
        graded = self._grade(dict(enumerate(texts)), "graded")
        if lost := [row for row in range(len(texts)) if row not in graded]:
            self._lost = {}
            self._begin(lost)
            rewards = (0.0,) * len(self.settings.weights) if len(self.settings.weights) > 1 else ()
            graded |= dict.fromkeys(lost, Graded(Grade(0.0, 0.0, rewards), "failed"))
            graded |= self._grade(dict.fromkeys(lost, ""), "failed")
        self._end()
        return [graded[row] for row in range(len(texts))]

    def _grade(self, texts: Mapping[int, str], outcome: Literal["graded", "failed"]) -> dict[int, Graded]:
        """Grades rows, without those that have no reward."""
        values = self._ask("grade", {row: (text,) for row, text in texts.items()})
        return {
            row: Graded(Grade(reward, correct, tuple(rewards), is_scored), outcome)
            for row, (reward, correct, rewards, is_scored) in values.items()
        }

    def _begin(self, rows: Sequence[int]) -> dict[int, Step]:
        self.end(rows)
        return {row: _step(value) for row, value in self._ask("reset", {row: self._begun[row] for row in rows}).items()}

    def _ask(
        self, method: str, arguments: Mapping[int, tuple[Any, ...]], calls: Mapping[int, int] | None = None
    ) -> dict[int, Any]:
        """What a method gives in the episodes of rows that are not lost; one that fails is lost.

        A row that makes `calls` has so often the time of one.
        """
        asked = [row for row in arguments if row not in self._lost]
        times = {row: max(1, (calls or {}).get(row, 1)) for row in asked}
        patience = {
            each: Patience(each * self.timeout, "task.tool_timeout", "calls of episodes")
            for each in set(times.values())
        }
        requests = [Request((method, *arguments[row]), patience[times[row]], row) for row in asked]
        values = {}
        for row, outcome in zip(asked, self.ask(requests), strict=True):
            if outcome.kind == "answered":
                values[row] = outcome.value
            else:
                self._lost[row] = error = outcome.told_of("it")
                self.warn_once(f"{self.settings.source.written}: an episode is lost: {one_line(error)}")
        return values

    def _end(self) -> None:
        self.end(range(len(self._begun)))


def _step(fields: Mapping[str, Any]) -> Step:
    """The Step that a worker has given the fields of."""
    return Step(**{**fields, "answers": [Answer(**answer) for answer in fields["answers"]]})


def _allow_files(count: int) -> None:
    """Raises the limit of open files: there is a channel to each episode."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
