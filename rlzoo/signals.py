"""What a signal does that asks a process to end: Ctrl-C, a scheduler's SIGTERM, the SIGHUP of a terminal that closes.

A command that one of them ends has the exit status that shells give it: 128 and the number of the signal.
"""

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_DEFAULTS = {signal.SIGHUP: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
"""What a process does with them where nobody has said otherwise."""


class Interrupted(KeyboardInterrupt):
    """A signal asked this process to end."""

    def __init__(self, number: int, message: str = "") -> None:
        super().__init__(message)
        self.number = number


def number_of(interruption: KeyboardInterrupt) -> int:
    """Which signal it was; Python's own is Ctrl-C."""
    return interruption.number if isinstance(interruption, Interrupted) else signal.SIGINT


def interrupt(number: int) -> None:
    """Raises Interrupted."""
    raise Interrupted(number)


@contextmanager
def heard(tell: Callable[[int], None] = interrupt) -> Iterator[None]:
    """While `tell` is called with the number of a signal that comes; not for one that is ignored, or somebody else's.

    A scheduler, its launcher and the group may each send the same one: after the first only Ctrl-C is told again.
    """
    ours = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in ENDING if ours}
    replaced = {it: old for it, old in before.items() if isinstance(old, _Handler) or old is _DEFAULTS[it]}
    handler = _Handler(tell)
    for number in replaced:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in replaced.items():
            signal.signal(number, old)


class _Handler:
    def __init__(self, tell: Callable[[int], None]) -> None:
        self.tell, self.has_told = tell, False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave_closed_terminal()
        if not self.has_told or number == signal.SIGINT:
            self.has_told = True
            self.tell(number)


def _leave_closed_terminal() -> None:
    """Writes to nobody from now on: to write to a terminal that is gone is an error, and nothing would be saved."""
    poll = select.poll()
    for output in (1, 2):
        poll.register(output, 0)
    for output, _ in poll.poll(0):
        nobody = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nobody, output)
        os.close(nobody)


@contextmanager
def held_back() -> Iterator[None]:
    """While they wait to be delivered; a process that is started meanwhile never hears them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
