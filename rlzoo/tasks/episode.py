"""Episodes of `task.environment`, each an instance of the user's class in a process of its own.

A nursery is a process that has loaded the class and is forked for each episode, so that neither state, nor a call that
hangs or ends its process, reaches another episode. What comes back from the user's code is JSON.
"""

import asyncio
import inspect
import json
import multiprocessing
import random
import resource
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from hashlib import blake2b
from multiprocessing.connection import Connection
from typing import Any

from rlzoo.errors import one_line
from rlzoo.tasks.base import Problem
from rlzoo.tasks.environment_class import REWARD, TURN_REWARD, TURN_STATE, EpisodeSource
from rlzoo.tasks.grading import checked_grade
from rlzoo.tasks.outside import described
from rlzoo.tasks.reward import Reward, Row, finite_number, weighted
from rlzoo.tasks.tool_calls import Answer, answer_text, shortened
from rlzoo.tasks.tool_pool import start_worker
from rlzoo.tasks.tools import Tool

_GRACE = 3.0
"""Seconds that an episode's process has beyond a time-out before it ends itself, should its nursery be gone."""
_LARGEST = 2**20
"""Bytes of what comes back from an episode; an answer in JSON has a tenth of it."""
_fork = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class EpisodeSettings:
    """What all episodes share."""

    environment: EpisodeSource
    tools: tuple[Tool, ...]
    rewards: tuple[Reward, ...]
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
        random.seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed % 2**32)
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
        answers: Sequence[Answer] = self._waited(self.instance.respond(turn, is_truncated))
        return [astuple(replace(answer, text=shortened(answer.text))) for answer in answers]

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
        found = [reward(self.problem, response, [self.instance]) for reward in self.settings.rewards]
        names = self.settings.environment.reward_names
        if REWARD in names:
            found.append((_number(REWARD, self._waited(self.instance.get_reward())), None))
        if TURN_REWARD in names:
            found.append((self.earned, None))
        grade = checked_grade(weighted(found, self.settings.weights), self.problem)
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
    takes_all = any(it.kind is it.VAR_KEYWORD for it in parameters.values())
    return {name: value for name, value in given.items() if takes_all or name in parameters}


def _live(settings: EpisodeSettings, orders: Connection, others: Sequence[Connection]) -> None:
    """The process of an episode; it ends when the other end of `orders` is closed."""
    for connection in others:  # whose ends must not stay open when their owners are gone
        connection.close()
    episode = Episode(settings)
    with suppress(EOFError, OSError):
        while True:
            order: Order = orders.recv()
            signal.setitimer(signal.ITIMER_REAL, settings.timeout + _GRACE)
            try:
                done = {"value": getattr(episode, order.method)(*order.arguments)}
            except BaseException as error:  # also exit()
                done = {"error": shortened(described(error))}
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            orders.send_bytes(json.dumps(done).encode())


@dataclass
class _Child:
    process: Any
    orders: Connection


class Nursery:
    """The episodes of one process, by number; each order is obeyed within the time that the settings give it."""

    def __init__(self, settings: EpisodeSettings, to_pool: Connection) -> None:
        self.settings, self.to_pool = settings, to_pool
        self.children: dict[int, _Child] = {}

    def obey(self, order: Order) -> dict[str, Any]:
        """What an episode gave as `value`, or its `error`, with `is_lost` if there is no such episode any more."""
        if order.method == "begin":
            self.end([order.number])
            self._fork(order.number)
        child = self.children.get(order.number)
        if child is None:
            return {"error": "the episode has ended", "is_lost": True}
        try:
            child.orders.send(order)
            if child.orders.poll(self.settings.timeout):
                done: dict[str, Any] = json.loads(child.orders.recv_bytes(_LARGEST))
                return done
            error = f"it took more than {self.settings.timeout:g} seconds"
        except (EOFError, OSError, ValueError):
            error = "it ended its process"
        child.process.kill()
        self.end([order.number])
        return {"error": error, "is_lost": True}

    def end(self, numbers: Sequence[int]) -> None:
        """Ends these episodes; their instances have a second for what they do when they are given up."""
        ended = [self.children.pop(number) for number in numbers if number in self.children]
        for child in ended:
            child.orders.close()
        deadline = time.monotonic() + 1.0
        for child in ended:
            child.process.join(max(0.0, deadline - time.monotonic()))
            child.process.kill()
            child.process.join()
            child.process.close()

    def _fork(self, number: int) -> None:
        here, there = _fork.Pipe()
        others = [self.to_pool, here, *(child.orders for child in self.children.values())]
        process = _fork.Process(target=_live, args=(self.settings, there, others))
        process.start()
        there.close()
        self.children[number] = _Child(process, here)


def keep_nursery(to_pool: Connection, environment: Mapping[str, str], settings: EpisodeSettings) -> None:
    """The process of a nursery; it ends, with its episodes, when the other end of `to_pool` is closed."""
    start_worker(environment)
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    nursery = Nursery(settings, to_pool)
    to_pool.send_bytes(b"ready")
    try:
        with suppress(EOFError, OSError):
            while True:
                orders: Sequence[Order] | None = to_pool.recv()
                if orders is None:
                    nursery.end([*nursery.children])
                else:
                    to_pool.send_bytes(json.dumps([nursery.obey(order) for order in orders]).encode())
    finally:
        nursery.end([*nursery.children])
