"""Ctrl-C, or the SIGTERM of a scheduler: a step that is under way is finished first, so that what is saved is whole."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import torch
from accelerate import Accelerator

DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
"""What a process does with them where nobody has said otherwise."""


class Interruption:
    """Puts Ctrl-C and SIGTERM off while a step is under way, once; a second one ends the step at once.

    Several processes put it off until all of them have ended a step, so that none waits for another.
    """

    def __init__(self, accelerator: Accelerator, tell: Callable[[], None]) -> None:
        self.accelerator, self.tell = accelerator, tell
        self.is_asked, self.is_under_way = False, False

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """While signals are dealt with so; not those that are ignored, somebody else's, or never come."""
        ours = threading.current_thread() is threading.main_thread()
        before = {number: signal.getsignal(number) for number in DEFAULTS if ours}
        heard = {number: handler for number, handler in before.items() if handler is DEFAULTS[number]}
        for number in heard:
            signal.signal(number, self._heed)
        try:
            yield
        finally:
            for number, handler in heard.items():
                signal.signal(number, handler)

    def _heed(self, number: int, frame: FrameType | None) -> None:
        alone = self.accelerator.num_processes == 1
        if self.is_asked or (alone and not self.is_under_way):
            raise KeyboardInterrupt
        self.is_asked = True
        self.tell()

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """A step. Raises KeyboardInterrupt at its end if that was asked for meanwhile, of any process."""
        self.is_under_way = True
        yield
        self.is_under_way = False
        if self._agreed():
            raise KeyboardInterrupt

    def _agreed(self) -> bool:
        if self.accelerator.num_processes == 1:
            return self.is_asked
        asked = torch.tensor([float(self.is_asked)], device=self.accelerator.device)
        return bool(self.accelerator.gather(asked).max())
