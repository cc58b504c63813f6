"""Episodes of `task.environment`, each an instance of the user's class in a process of its own.

So neither a state, nor a call that hangs or ends its process, reaches another episode.
"""

import asyncio
import inspect
import json
import logging
import resource
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from hashlib import blake2b
from types import TracebackType
from typing import Any, Literal, Self

from rlzoo.errors import one_line
from rlzoo.tasks.base import Grade, Problem
from rlzoo.tasks.environment_class import DONE, REWARD, TURN_REWARD, TURN_STATE, EpisodeSource, Hears
from rlzoo.tasks.grading import Graded, checked_grade
from rlzoo.tasks.reward import RewardFunction, Row, finite_number, weighted
from rlzoo.tasks.sandbox import Outcome, Patience, Request, Sandbox
from rlzoo.tasks.tools import Answer, Call, Tool, answer_text, read_call, seed_generators, shortened

SIDE_BY_SIDE = 8
"""Episodes of a core that act at once: those that wait for something cost nothing, those that calculate share its core
and their time."""
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class EpisodeSettings:
    """What all episodes share."""

    environment: EpisodeSource
    tools: tuple[Tool, ...]
    rewards: tuple[RewardFunction, ...]
    weights: tuple[float, ...]
    timeout: float
    """Seconds for each of beginning, a call, and the reward."""


class Episode:
    """The user's instance, and what may be asked of it. Whatever the user's code raises comes out."""

    def __init__(self, settings: EpisodeSettings) -> None:
        self.settings = settings
        self.loop = asyncio.new_event_loop()

    def obey(self, method: str, *arguments: Any) -> Any:
        """What a method of this class gives."""
        return getattr(self, method)(*arguments)

    def begin(self, problem: Problem, seed: int) -> str:
        """Makes the instance and resets it, with Python's and numpy's generators seeded; gives what it shows first."""
        seed_generators(seed)
        self.problem, self.instance, self.earned = problem, self.settings.environment.make(), 0.0
        observation = self._waited(self.instance.reset(**_columns(self.instance.reset, problem)))
        if observation is not None and not isinstance(observation, str):
            raise TypeError(f"reset returned {one_line(repr(observation))}; it must return text, or None")
        return shortened(observation or "")

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """What a method, or a function of `task.tools`, answers."""
        functions = {tool.name: tool.function for tool in self.settings.tools}
        function = functions.get(name) or self.settings.environment.tool(self.instance, name)
        return answer_text(self._waited(function(**arguments)))

    def respond(self, turn: str, is_truncated: bool) -> Sequence[Sequence[Any]]:
        """The fields of each answer to a turn of the policy; none if the episode ends with it."""
        environment = self.settings.environment
        answers: Sequence[Answer] = self._waited(environment.respond(self.instance, turn, is_truncated))
        return [astuple(replace(answer, text=shortened(answer.text))) for answer in answers]

    def is_over(self) -> bool:
        """Whether the instance says that the policy writes no further turn."""
        return bool(getattr(self.instance, DONE))

    def turn_reward(self) -> float:
        """The weighted reward of the turn that has ended; from here on it is the class's own until one is set."""
        earned = _number(TURN_REWARD, getattr(self.instance, TURN_REWARD))
        vars(self.instance).pop(TURN_REWARD, None)
        self.earned += earned
        return earned * self.settings.weights[-1]

    def turn_state(self) -> str:
        """By what the state that is there now is told from others."""
        state = getattr(self.instance, TURN_STATE)
        try:
            return blake2b(json.dumps(state, sort_keys=True).encode()).hexdigest()
        except (TypeError, ValueError):
            raise TypeError(
                f"{TURN_STATE} is {one_line(repr(state))}; it must be text, a number, or lists and dictionaries of them"
            ) from None

    def grade(self, response: str) -> Sequence[Any]:
        """Reward, correctness, and the rewards that these are made of, for the text of the last turn."""
        rewards = [reward(self.problem, response, [self.instance]) for reward in self.settings.rewards]
        names = self.settings.environment.reward_names
        if REWARD in names:
            rewards.append((_number(REWARD, self._waited(self.instance.get_reward())), None))
        if TURN_REWARD in names:
            unread = _number(TURN_REWARD, vars(self.instance).get(TURN_REWARD, 0.0))
            rewards.append((self.earned + unread, None))
        grade = checked_grade(weighted(rewards, self.settings.weights), self.problem)
        return grade.reward, grade.correct, grade.rewards

    def _waited(self, value: Any) -> Any:
        return self.loop.run_until_complete(value) if inspect.isawaitable(value) else value


def _number(name: str, value: Any) -> float:
    try:
        return finite_number(value)
    except (TypeError, ValueError):
        gave = "is" if name == TURN_REWARD else "returned"
        must = "be" if name == TURN_REWARD else "return"
        raise ValueError(f"{name} {gave} {one_line(repr(value))}; it must {must} a number") from None


def _columns(reset: Any, problem: Problem) -> dict[str, Any]:
    """The row, of which `reset` gets what it names, or all; a task that has no rows has prompt and answer."""
    parameters = inspect.signature(reset).parameters
    given = {"prompt": problem.prompt, "answer": problem.answer, **Row.of(problem).columns}
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return {name: value for name, value in given.items() if takes_all or name in parameters}


def _episode(settings: EpisodeSettings) -> Any:
    """What a worker does."""
    return Episode(settings).obey


class EpisodePool:
    """Episodes, numbered from 0 each time that some are begun, on `workers` cores; a context manager.

    An episode whose process is killed from outside is begun again and does again what it did. Nothing that the user's
    class does ends a run. A call that raises is told to the model. An episode whose `reset` or reward raises, or which
    takes too long or ends its process, is lost: its calls are answered by an error, and it gets the reward of an
    episode in which nothing was done, or 0 if that has none either.
    """

    def __init__(self, settings: EpisodeSettings, workers: int) -> None:
        self.settings = settings
        self.names = [*(tool.name for tool in settings.tools), *settings.environment.tools]
        self._sandbox = Sandbox(partial(_episode, settings), "task.environment", SIDE_BY_SIDE * workers)
        self._begun: list[tuple[Problem, int]] = []
        self._lost: dict[int, str] = {}
        """What became of an episode."""
        self._told = set[str]()
        self.over = set[int]()
        """The episodes behind whose last call no turn follows."""

    def __enter__(self) -> Self:
        self._sandbox.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._sandbox.__exit__(kind, error, traceback)

    def begin(self, problems: Sequence[Problem], seeds: Sequence[int]) -> list[Answer]:
        """Begins an episode of each problem in place of all there were; what each shows first, "" if nothing."""
        self._end()
        self._begun, self._lost, self.over = list(zip(problems, seeds, strict=True)), {}, set()
        _allow_files(2 * len(problems) + 512)
        return self._begin(range(len(problems)))

    def answers(self, asked: Sequence[tuple[int, Sequence[str]]]) -> list[list[Answer]]:
        """What each of some episodes answers to its calls, in order."""
        read = [(number, self._read(number, call)) for number, calls in asked for call in calls]
        orders = [(number, "call", call.name, call.arguments) for number, call in read if isinstance(call, Call)]
        answered = iter(self._done(orders))
        answers = [call if isinstance(call, Answer) else self._answer(number, next(answered)) for number, call in read]
        self._note_ends([number for number, _ in asked])
        rest = iter(answers)
        return [[next(rest) for _ in calls] for _, calls in asked]

    @property
    def hears(self) -> Hears:
        """What of the policy's turns an episode is told."""
        return self.settings.environment.hears

    def respond(self, turns: Sequence[tuple[int, str, bool]]) -> list[list[Answer]]:
        """What each of some episodes answers to a turn, which may be truncated; nothing where it ends."""
        values = self._asked("respond", [turn for turn in turns if turn[0] not in self._lost])
        self._note_ends([*values])
        return [[Answer(*fields) for fields in values.get(number, [])] for number, *_ in turns]

    def turn_rewards(self, numbers: Sequence[int]) -> list[float]:
        """What the turn that has ended earned in each of some episodes; 0 where turns earn nothing."""
        asked = numbers if TURN_REWARD in self.settings.environment.reward_names else ()
        earned = self._asked("turn_reward", [(number,) for number in asked])
        return [earned.get(number, 0.0) for number in numbers]

    def turn_states(self, numbers: Sequence[int]) -> list[str] | None:
        """By what the states of some episodes are told apart; None if their class does not say it."""
        if not self.settings.environment.tells_states:
            return None
        states = self._asked("turn_state", [(number,) for number in numbers])
        return [states.get(number, "") for number in numbers]

    def grades(self, texts: Sequence[str]) -> list[Graded]:
        """The grade of each episode whose last turn has that text; all end."""
        graded = self._grade(dict(enumerate(texts)), "graded")
        if lost := [number for number in range(len(texts)) if number not in graded]:
            self._lost = {}
            self._begin(lost)
            nothing = dict.fromkeys(lost, self._nothing)
            graded |= nothing | self._grade(dict.fromkeys(lost, ""), "failed")
        self._end()
        return [graded[number] for number in range(len(texts))]

    def _grade(self, texts: Mapping[int, str], outcome: Literal["graded", "failed"]) -> dict[int, Graded]:
        """Without those that have no reward."""
        values = self._asked("grade", [*texts.items()])
        return {
            number: Graded(Grade(reward, correct, tuple(rewards)), outcome)
            for number, (reward, correct, rewards) in values.items()
        }

    @property
    def _nothing(self) -> Graded:
        count = len(self.settings.weights)
        return Graded(Grade(0.0, 0.0, (0.0,) * count if count > 1 else ()), "failed")

    def _begin(self, numbers: Sequence[int]) -> list[Answer]:
        self._sandbox.end(numbers)
        shown = self._asked("begin", [(number, *self._begun[number]) for number in numbers])
        self._note_ends([*shown])
        return [Answer(shown.get(number, ""), is_error=number not in shown) for number in numbers]

    def _note_ends(self, numbers: Sequence[int]) -> None:
        if self.settings.environment.tells_end:
            over = self._asked("is_over", [(number,) for number in dict.fromkeys(numbers)])
            self.over |= {number for number, is_over in over.items() if is_over}

    def _asked(self, method: str, orders: Sequence[tuple[Any, ...]]) -> dict[int, Any]:
        """What a method gives in episodes that are not lost, by number; one that fails is lost."""
        asked = [(number, method, *arguments) for number, *arguments in orders if number not in self._lost]
        values = {}
        for (number, *_), outcome in zip(asked, self._done(asked), strict=True):
            if outcome.kind == "answered":
                values[number] = outcome.value
            else:
                self._lose(number, outcome.told_of("it"))
        return values

    def _read(self, number: int, call: str) -> Call | Answer:
        if number in self._lost:
            return Answer(f"error: the environment is lost: {self._lost[number]}", is_error=True)
        return read_call(call, self.names)

    def _answer(self, number: int, outcome: Outcome) -> Answer:
        if outcome.kind == "answered":
            return Answer(outcome.value)
        error = outcome.told_of("it")
        if outcome.is_last:
            self._lose(number, error)
        return Answer(shortened(f"error: {error}"), is_error=True)

    def _lose(self, number: int, error: str) -> None:
        self._lost.setdefault(number, shortened(error))
        if error not in self._told:
            self._told.add(error)
            _logger.warning("%s: an episode is lost: %s", self.settings.environment.written, one_line(error))

    def _done(self, orders: Sequence[tuple[Any, ...]]) -> list[Outcome]:
        """What became of each order: a number, a method of `Episode`, and its arguments."""
        patience = Patience(self.settings.timeout, "task.tool_timeout", "calls of episodes")
        return self._sandbox.ask([Request((*order,), patience, number) for number, *order in orders])

    def _end(self) -> None:
        self._sandbox.end(range(len(self._begun)))


def _allow_files(count: int) -> None:
    """Raises the limit of open files: there is a channel to each episode."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
