"""A signal that asks a run to end amid a step: the step is finished first, so that what is saved is whole."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from accelerate import Accelerator

from rlzoo.signals import Interrupted, heard, interrupt


class Interruption:
    """Puts a signal off while a step is under way, once; Ctrl-C after it ends the step at once.

    Several processes put it off until all of them have ended a step, so that none waits for another.
    """

    def __init__(self, accelerator: Accelerator, tell: Callable[[], None]) -> None:
        self.accelerator, self.tell = accelerator, tell
        self.asked, self.is_under_way = 0, False

    def heeded(self) -> AbstractContextManager[None]:
        """While signals are dealt with so."""
        return heard(self._heed)

    def _heed(self, number: int) -> None:
        alone = self.accelerator.num_processes == 1
        if self.asked or (alone and not self.is_under_way):
            interrupt(number)
        self.asked = number
        self.tell()

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """A step. Raises Interrupted at its end if a signal came meanwhile, to any process."""
        self.is_under_way = True
        yield
        self.is_under_way = False
        if number := self._agreed():
            raise Interrupted(number)

    def _agreed(self) -> int:
        if self.accelerator.num_processes == 1:
            return self.asked
        asked = torch.tensor([self.asked], device=self.accelerator.device)
        return int(self.accelerator.gather(asked).max())
