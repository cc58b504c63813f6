"""Ctrl-C: a step that is under way is finished first, so that what is saved is whole."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import torch
from accelerate import Accelerator


class Interruption:
    """Puts Ctrl-C off while a step is under way, once; a second one ends the step at once.

    Several processes put it off until all of them have ended a step, so that none waits for another.
    """

    def __init__(self, accelerator: Accelerator, tell: Callable[[], None]) -> None:
        self.accelerator, self.tell = accelerator, tell
        self.is_asked, self.is_under_way = False, False

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """While Ctrl-C is dealt with so; not where it is ignored, somebody else's, or never comes."""
        before = signal.getsignal(signal.SIGINT)
        if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
            yield
            return
        signal.signal(signal.SIGINT, self._heed)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

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
