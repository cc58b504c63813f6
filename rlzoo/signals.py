"""What a signal does that asks a process to end: Ctrl-C, a scheduler's SIGTERM, the SIGHUP of a terminal that closes.

A command that one of them ends has the exit status that shells give it: 128 and the number of the signal.
"""

import faulthandler
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from types import FrameType
from typing import IO, Any

ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_DEFAULTS = {signal.SIGHUP: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
"""What a process does with them unless another handler is set."""
LONGEST_OPERATION = 60.0
"""Seconds by the clock after which an operation that hears no signal ends a process whose time is limited."""
_SOON = 0.05
"""Seconds in which an object is deleted."""


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
    """A context in which `tell` gets the number of each signal that is not ignored and has no other handler.

    A scheduler, its launcher and the group may each send the same signal: after the first, only Ctrl-C calls it again.
    Where a library made another error of Interrupted, as torch does while safetensors reads, Interrupted is raised.
    """
    ours = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in ENDING if ours}
    replaced = {number: old for number, old in before.items() if isinstance(old, _Handler) or old is _DEFAULTS[number]}
    handler = _Handler(tell)
    for number in replaced:
        signal.signal(number, handler)
    unraisable = sys.unraisablehook
    sys.unraisablehook = partial(handler.again, otherwise=unraisable)
    try:
        yield
    except Exception as error:
        if handler.raised is None or _followed(error, handler.raised):
            raise
        raise Interrupted(handler.raised.number) from error
    finally:
        sys.unraisablehook = unraisable
        for number, old in replaced.items():
            signal.signal(number, old)


def _followed(error: BaseException | None, interruption: Interrupted) -> bool:
    """Whether it was raised while the interruption was dealt with, such as by a disk that is full at the last save."""
    while error is not None and error is not interruption:
        error = error.__context__
    return error is interruption


class _Handler:
    def __init__(self, tell: Callable[[int], None]) -> None:
        self.tell, self.has_told = tell, False
        self.raised: Interrupted | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave_closed_terminal()
        if not self.has_told or number == signal.SIGINT:
            self.has_told = True
            try:
                self.tell(number)
            except Interrupted as interruption:
                self.raised = interruption
                raise

    def again(self, unraisable: Any, otherwise: Callable[[Any], object]) -> None:
        """Python drops what is raised while it deletes an object; a signal that was met there comes again."""
        if not isinstance(unraisable.exc_value, Interrupted):
            otherwise(unraisable)
            return
        self.has_told = False
        threading.Timer(_SOON, os.kill, (os.getpid(), unraisable.exc_value.number)).start()


def _leave_closed_terminal() -> None:
    """Discards output from now on: to write to a terminal that is gone is an error, and nothing would be saved."""
    poll = select.poll()
    for output in (1, 2):
        poll.register(output, 0)
    for output, _ in poll.poll(0):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, output)
        os.close(nowhere)


@contextmanager
def held_back() -> Iterator[None]:
    """While they wait to be delivered; a process that is started meanwhile never hears them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def within(seconds: float, error: str) -> Iterator[None]:
    """While this process calculates for this many seconds at most; without a limit in other threads than the main one.

    Raises TimeoutError. A single operation that does not return to Python hears no signal: after
    LONGEST_OPERATION the process prints the error and ends with status 1.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, _time_is_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, seconds / 10)  # again where a library has dropped the first
    faulthandler.dump_traceback_later(LONGEST_OPERATION, exit=True, file=_last_words(error))
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)  # where a signal that waited is heard
        finally:
            signal.signal(signal.SIGVTALRM, before)


@cache
def _last_words(error: str) -> IO[bytes]:
    """A file; what is written to it has a shell print the error, as this process cannot while an operation lasts."""
    script = 'read -r _ && printf "rlzoo: error: %s\\n" "$0" >&2'
    shell = subprocess.Popen(["sh", "-c", script, error], stdin=subprocess.PIPE, start_new_session=True)
    assert shell.stdin
    return shell.stdin


def _time_is_up(number: int, frame: FrameType | None) -> None:
    raise TimeoutError
