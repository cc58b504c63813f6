"""Episodes of `task.environment`, each an instance of the user's class in a process of its own.

What comes back from the user's code is JSON. `nursery` has the processes.
"""

import asyncio
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from hashlib import blake2b
from typing import Any

from rlzoo.errors import one_line
from rlzoo.tasks.base import Problem
from rlzoo.tasks.environment_class import DONE, REWARD, TURN_REWARD, TURN_STATE, EpisodeSource
from rlzoo.tasks.grading import checked_grade
from rlzoo.tasks.reward import RewardFunction, Row, finite_number, weighted
from rlzoo.tasks.tool_calls import Answer, answer_text, shortened
from rlzoo.tasks.tool_pool import seed_generators
from rlzoo.tasks.tools import Tool


@dataclass(frozen=True)
class EpisodeSettings:
    """What all episodes share."""

    environment: EpisodeSource
    tools: tuple[Tool, ...]
    rewards: tuple[RewardFunction, ...]
    weights: tuple[float, ...]
    timeout: float
    """Seconds for each of beginning, a call, and the reward."""


@dataclass(frozen=True)
class Order:
    """What an episode is to do: a method of `Episode` with its arguments."""

    number: int
    method: str
    arguments: tuple[Any, ...]


class Episode:
    """The user's instance, and what may be asked of it. Whatever the user's code raises comes out."""

    def __init__(self, settings: EpisodeSettings) -> None:
        self.settings = settings
        self.loop = asyncio.new_event_loop()

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

    @property
    def is_over(self) -> bool:
        """Whether the instance says that the policy writes no further turn."""
        return self.settings.environment.tells_end and bool(getattr(self.instance, DONE))

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
