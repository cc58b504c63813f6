"""The processes of episodes. A nursery is a process that has loaded the user's class and is forked for each episode, so
that neither state, nor a call that hangs or ends its process, reaches another episode.
"""

import json
import multiprocessing
import resource
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any

from rlzoo.tasks.episode import Episode, EpisodeSettings, Order
from rlzoo.tasks.grading import MOST_TIMED_OUT
from rlzoo.tasks.outside import described
from rlzoo.tasks.tool_calls import shortened
from rlzoo.tasks.tool_pool import HURRIED, silence, start_worker

SIDE_BY_SIDE = 8
"""Episodes of a nursery that act at once: those that wait for something cost nothing, those that calculate share its
core and their time."""
_GRACE = 3.0
"""Seconds that an episode's process has beyond a time-out before it ends itself, should its nursery be gone."""
_LARGEST = 2**20
"""Bytes of what comes back from an episode; an answer in JSON has a tenth of it."""
_fork = multiprocessing.get_context("fork")


def _live(settings: EpisodeSettings, orders: Connection, others: Sequence[Connection]) -> None:
    """The process of an episode; it ends when the other end of `orders` is closed."""
    silence()
    for connection in others:  # whose ends must not stay open when their owners are gone
        connection.close()
    episode = Episode(settings)
    with suppress(EOFError, OSError):
        while True:
            order: Order = orders.recv()
            signal.setitimer(signal.ITIMER_REAL, settings.timeout + _GRACE)
            done = _tried(partial(getattr(episode, order.method), *order.arguments))
            over = _tried(lambda: episode.is_over)
            signal.setitimer(signal.ITIMER_REAL, 0)
            told = {**done, "is_over": over["value"]} if "value" in over else over
            orders.send_bytes(json.dumps(told).encode())


def _tried(call: Callable[[], Any]) -> dict[str, Any]:
    """What the user's code gives, as `value`, or its `error`."""
    try:
        return {"value": call()}
    except BaseException as error:  # also exit()
        return {"error": shortened(described(error))}


@dataclass
class _Child:
    process: Any
    orders: Connection


class Nursery:
    """The episodes of one process, by number."""

    def __init__(self, settings: EpisodeSettings, to_pool: Connection) -> None:
        self.settings, self.to_pool = settings, to_pool
        self.children: dict[int, _Child] = {}

    def obey(self, orders: Sequence[Order]) -> list[dict[str, Any]]:
        """What became of each order: its `value`, or an `error`, with `is_lost` if there is no such episode any more.

        `is_over` says whether the episode says so.

        Episodes act side by side, each on one order at a time, in the time that the settings give it. Once so many
        have taken all of it, the others of this call get less, as responses that are graded do.
        """
        return _OrderRound(self, orders).results()

    def begin(self, number: int) -> None:
        """A process for an episode, in place of the one that there was."""
        self.end([number])
        here, there = _fork.Pipe()
        others = [self.to_pool, here, *(child.orders for child in self.children.values())]
        process = _fork.Process(target=_live, args=(self.settings, there, others))
        process.start()
        there.close()
        self.children[number] = _Child(process, here)

    def kill(self, number: int) -> None:
        """Ends an episode, whatever it does."""
        self.children[number].process.kill()
        self.end([number])

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


@dataclass(frozen=True)
class _UnderWay:
    """An order that an episode has been sent."""

    place: int
    limit: float
    deadline: float


class _OrderRound:
    """Some orders on their way through the episodes of a nursery."""

    def __init__(self, nursery: Nursery, orders: Sequence[Order]) -> None:
        self.nursery, self.late = nursery, 0
        self.open: dict[int, deque[tuple[int, Order]]] = {}
        """By episode, what it has not been sent yet, with the place among the orders."""
        for place, order in enumerate(orders):
            self.open.setdefault(order.number, deque()).append((place, order))
        self.idle = deque(self.open)
        self.sent: dict[int, _UnderWay] = {}
        self.done: dict[int, dict[str, Any]] = {}

    def results(self) -> list[dict[str, Any]]:
        """What became of them, in order."""
        while self.idle or self.sent:
            while self.idle and len(self.sent) < SIDE_BY_SIDE:
                self._send(self.idle.popleft())
            if self.sent:
                self._hear()
        return [self.done[place] for place in sorted(self.done)]

    def _send(self, number: int) -> None:
        place, order = self.open[number].popleft()
        if order.method == "begin":
            self.nursery.begin(number)
        limit = self.nursery.settings.timeout * (HURRIED if self.late >= MOST_TIMED_OUT else 1.0)
        self.sent[number] = _UnderWay(place, limit, time.monotonic() + limit)
        if number not in self.nursery.children:
            self._settle(number, {"error": "the episode has ended", "is_lost": True})
            return
        try:
            self.nursery.children[number].orders.send(order)
        except OSError:
            self._lose(number, "it ended its process")

    def _hear(self) -> None:
        """Waits until an episode is done, or out of time. Raises EOFError if nobody waits for it any more."""
        numbers = {self.nursery.children[number].orders: number for number in self.sent}
        first = min(pending.deadline for pending in self.sent.values())
        heard = wait([self.nursery.to_pool, *numbers], max(0.0, first - time.monotonic()))
        if self.nursery.to_pool in heard:  # from where nothing comes while orders are under way
            raise EOFError
        for number in [number for connection, number in numbers.items() if connection in heard]:
            try:
                self._settle(number, json.loads(self.nursery.children[number].orders.recv_bytes(_LARGEST)))
            except (EOFError, OSError, ValueError):
                self._lose(number, "it ended its process")
        now = time.monotonic()
        for number, pending in [*self.sent.items()]:
            if pending.deadline <= now:
                self.late += 1
                self._lose(number, f"it took more than {pending.limit:g} seconds")

    def _lose(self, number: int, error: str) -> None:
        self.nursery.kill(number)
        self._settle(number, {"error": error, "is_lost": True})

    def _settle(self, number: int, done: dict[str, Any]) -> None:
        self.done[self.sent.pop(number).place] = done
        if self.open[number]:
            self.idle.append(number)


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
                    to_pool.send_bytes(json.dumps(nursery.obey(orders)).encode())
    finally:
        nursery.end([*nursery.children])
