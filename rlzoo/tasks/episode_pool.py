"""Episodes of `task.environment` as a rollout sees them: begun, called and graded together, over several nurseries."""

import json
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from types import TracebackType
from typing import Any, Self

from rlzoo.errors import Fault
from rlzoo.scripts import WithoutMain
from rlzoo.tasks.base import Grade, Problem
from rlzoo.tasks.environment_class import TURN_REWARD, Hears
from rlzoo.tasks.episode import EpisodeSettings, Order
from rlzoo.tasks.grading import Graded
from rlzoo.tasks.nursery import keep_nursery
from rlzoo.tasks.tool_calls import Answer, Call, read_call

_PATIENCE = 5.0
"""Seconds that a nursery has to end its episodes."""
_logger = logging.getLogger(__name__)


class EpisodePool:
    """Episodes, numbered from 0 each time that some are begun, in `workers` nurseries; a context manager.

    Of a nursery that is killed from outside, the episodes are begun again and do again what they did. Nothing that the
    user's class does ends a run. A call that raises is told to the model. An episode whose `reset` or
    reward raises, or which takes too long or ends its process, is lost: its calls are answered by an error, and it gets
    the reward of an episode in which nothing was done, or 0 if that has none either.
    """

    def __init__(self, settings: EpisodeSettings, workers: int) -> None:
        self.settings, self.workers = settings, workers
        self.names = [*(tool.name for tool in settings.tools), *settings.environment.tools]
        self._begun: list[tuple[Problem, int]] = []
        self._lost: dict[int, str] = {}
        """What became of an episode."""
        self._told = set[str]()
        self._one_at_a_time = Lock()
        self.over = set[int]()
        """The episodes behind whose last call no turn follows."""

    def __enter__(self) -> Self:
        self._nurseries = [_NurseryProcess(self.settings) for _ in range(self.workers)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for nursery in self._nurseries:
            nursery.stop()

    def begin(self, problems: Sequence[Problem], seeds: Sequence[int]) -> list[Answer]:
        """Begins an episode of each problem in place of all there were; what each shows first, "" if nothing."""
        self._end()
        self._begun, self._lost, self.over = list(zip(problems, seeds, strict=True)), {}, set()
        return self._begin(range(len(problems)))

    def answers(self, asked: Sequence[tuple[int, Sequence[str]]]) -> list[list[Answer]]:
        """What each of some episodes answers to its calls, in order."""
        read = [(number, self._read(number, call)) for number, calls in asked for call in calls]
        orders = [
            Order(number, "call", (call.name, call.arguments)) for number, call in read if not isinstance(call, Answer)
        ]
        done = iter(self._answer(*pair) for pair in zip(orders, self._done(orders), strict=True))
        answers = iter([item if isinstance(item, Answer) else next(done) for _, item in read])
        return [[next(answers) for _ in calls] for _, calls in asked]

    @property
    def hears(self) -> Hears:
        """What of the policy's turns an episode is told."""
        return self.settings.environment.hears

    def respond(self, turns: Sequence[tuple[int, str, bool]]) -> list[list[Answer]]:
        """What each of some episodes answers to a turn, which may be truncated; nothing where it ends."""
        orders = [Order(number, "respond", tuple(turn)) for number, *turn in turns if number not in self._lost]
        answers = {
            order.number: self._responses(order, done) for order, done in zip(orders, self._done(orders), strict=True)
        }
        return [answers.get(number, []) for number, *_ in turns]

    def turn_rewards(self, numbers: Sequence[int]) -> list[float]:
        """What the turn that has ended earned in each of some episodes; 0 where turns earn nothing."""
        earned = self._asked("turn_reward", numbers) if TURN_REWARD in self.settings.environment.reward_names else {}
        return [earned.get(number, 0.0) for number in numbers]

    def turn_states(self, numbers: Sequence[int]) -> list[str] | None:
        """By what the states of some episodes are told apart; None if their class does not say it."""
        if not self.settings.environment.tells_states:
            return None
        states = self._asked("turn_state", numbers)
        return [states.get(number, "") for number in numbers]

    def grades(self, texts: Sequence[str]) -> list[Graded]:
        """The grade of each episode whose last turn has that text; all end."""
        going = [number for number in range(len(texts)) if number not in self._lost]
        graded = self._grade({number: texts[number] for number in going})
        if lost := [number for number in range(len(texts)) if number not in graded]:
            self._begin(lost)
            untouched = self._grade(dict.fromkeys(lost, ""))
            graded |= {number: Graded(untouched.get(number, self._nothing).grade, "failed") for number in lost}
        self._end()
        return [graded[number] for number in range(len(texts))]

    def _asked(self, method: str, numbers: Sequence[int]) -> dict[int, Any]:
        """What episodes that are not lost say; one that fails is lost."""
        orders = [Order(number, method, ()) for number in numbers if number not in self._lost]
        values = {}
        for order, done in zip(orders, self._done(orders), strict=True):
            if "error" in done:
                self._lose(order.number, done["error"])
            else:
                values[order.number] = done["value"]
        return values

    @property
    def _nothing(self) -> Graded:
        count = len(self.settings.weights)
        return Graded(Grade(0.0, 0.0, (0.0,) * count if count > 1 else ()), "failed")

    def _begin(self, numbers: Sequence[int]) -> list[Answer]:
        orders = [Order(number, "begin", self._begun[number]) for number in numbers]
        answers = [self._answer(*pair) for pair in zip(orders, self._done(orders), strict=True)]
        for number, answer in zip(numbers, answers, strict=True):
            if answer.is_error:
                self._lose(number, answer.text)
        return [Answer("", is_error=True) if answer.is_error else answer for answer in answers]

    def _grade(self, texts: dict[int, str]) -> dict[int, Graded]:
        """Without those that have no reward."""
        orders = [Order(number, "grade", (text,)) for number, text in texts.items()]
        graded = {}
        for order, done in zip(orders, self._done(orders), strict=True):
            if "error" in done:
                self._lose(order.number, done["error"])
            else:
                reward, correct, rewards = done["value"]
                graded[order.number] = Graded(Grade(reward, correct, tuple(rewards)), "graded")
        return graded

    def _read(self, number: int, call: str) -> Call | Answer:
        if number in self._lost:
            return Answer(f"error: the environment is lost: {self._lost[number]}", is_error=True)
        return read_call(call, self.names)

    def _answer(self, order: Order, done: dict[str, Any]) -> Answer:
        if "error" not in done:
            return Answer(done["value"])
        if done.get("is_lost"):
            self._lose(order.number, done["error"])
        return Answer(f"error: {done['error']}", is_error=True)

    def _responses(self, order: Order, done: dict[str, Any]) -> list[Answer]:
        if "error" in done:
            self._lose(order.number, done["error"])
        return [Answer(*fields) for fields in done.get("value", [])]

    def _lose(self, number: int, error: str) -> None:
        is_known = self._lost.setdefault(number, error) != error or error in self._told
        if not is_known:
            self._told.add(error)
            _logger.warning("%s: an episode is lost: %s", self.settings.environment.written, error)

    def _done(self, orders: Sequence[Order]) -> list[dict[str, Any]]:
        """What became of each order; the nurseries work side by side."""
        parts = [[order for order in orders if order.number % self.workers == place] for place in range(self.workers)]
        with self._one_at_a_time:
            for nursery, part in zip(self._nurseries, parts, strict=True):
                nursery.ask(part)
            told = [iter(nursery.told()) for nursery in self._nurseries]
        done = [next(told[order.number % self.workers]) for order in orders]
        self.over |= {order.number for order, outcome in zip(orders, done, strict=True) if outcome.get("is_over")}
        return done

    def _end(self) -> None:
        for nursery in self._nurseries:
            nursery.end()


class _NurseryProcess:
    """A nursery and the way to it; one that is killed is begun again, with its episodes."""

    def __init__(self, settings: EpisodeSettings) -> None:
        self.settings = settings
        self._past: list[tuple[Order, dict[str, Any]]] = []
        """What its episodes have done since there were none, with what became of it."""
        self._asked: Sequence[Order] = ()
        self._changed: set[int] = set()
        """Its episodes that did something else when they were begun again."""
        self._start()

    def ask(self, orders: Sequence[Order]) -> None:
        """Sends the orders; `told` has what becomes of them."""
        self._asked, self._is_repeating = orders, False
        if self._is_gone or not self._process.is_alive():
            self._repeat()
        else:
            self._send(orders)

    def told(self) -> list[dict[str, Any]]:
        """What became of the orders that were sent last.

        Episodes are lost where the nursery is killed twice over them, and where they do not do again what they did.
        """
        done = self._heard()
        if done is None and not self._is_repeating:
            self._repeat()
            done = self._heard()
        if done is None:
            self._is_gone, self._past = True, []  # for a moment a process that was killed still counts as alive
            return [{"error": "its process was ended from outside", "is_lost": True}] * len(self._asked)
        if self._is_repeating:
            done = self._behind_repeated(done)
        self._changed -= {order.number for order in self._asked if order.method == "begin"}
        done = [
            _CHANGED if order.number in self._changed else outcome
            for order, outcome in zip(self._asked, done, strict=True)
        ]
        self._past += zip(self._asked, done, strict=True)
        lost = {order.number for order, outcome in self._past if outcome.get("is_lost")}
        self._past = [(order, outcome) for order, outcome in self._past if order.number not in lost]
        return done

    def end(self) -> None:
        """Ends its episodes."""
        self._past, self._changed = [], set()
        self._send(None)

    def stop(self) -> None:
        """Ends it, at once if it is busy."""
        self._to_nursery.close()
        self._process.join(_PATIENCE)
        self._process.kill()
        self._process.join()

    def _start(self) -> None:
        # As graders: a worker inherits the environment alone, and hears none of the signals that ask to end.
        context = WithoutMain()
        context.set_forkserver_preload(["rlzoo.tasks.nursery"])
        self._to_nursery, to_pool = context.Pipe()
        arguments = (to_pool, dict(os.environ), self.settings)
        self._process, self._is_gone = context.Process(target=keep_nursery, args=arguments), False
        self._process.start()
        to_pool.close()
        try:
            self._to_nursery.recv_bytes()
        except (EOFError, OSError):
            raise Fault("the processes of task.environment cannot be started; their output says why") from None

    def _repeat(self) -> None:
        """Begins it again, and has its episodes do all that they did before what they are asked."""
        self.stop()
        self._start()
        self._is_repeating = True
        self._send([*(order for order, _ in self._past), *self._asked])

    def _behind_repeated(self, done: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """What became of the orders behind those that were repeated; notes which episodes are not what they were."""
        pairs = zip(self._past, done[: len(self._past)], strict=True)
        self._changed |= {order.number for (order, before), now in pairs if _untold(before) != _untold(now)}
        return [*done[len(self._past) :]]

    def _heard(self) -> list[dict[str, Any]] | None:
        """What became of what was sent; None if the nursery is gone."""
        try:
            done: list[dict[str, Any]] = json.loads(self._to_nursery.recv_bytes())
            return done
        except (EOFError, OSError):
            return None

    def _send(self, orders: Sequence[Order] | None) -> None:
        with suppress(OSError):  # it is gone, which `_heard` says
            self._to_nursery.send(orders)


_CHANGED = {"error": "its process was ended from outside, and begun again it did something else", "is_lost": True}


def _untold(outcome: dict[str, Any]) -> dict[str, Any]:
    """What became of an order but for the words of an error, which may name addresses."""
    return {**outcome, "error": "error" in outcome}
