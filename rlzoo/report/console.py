"""What is printed on: a terminal, a pipe, or the output of a notebook's cell, which gets the plain lines of a pipe."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from rlzoo.errors import printable


class PlainConsole(Console):
    """Prints text as it is, and what would steer a terminal as an escape, whoever wrote it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, force_jupyter=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What is shown, cut where its style changes; the terminal's own codes are no text of these."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def plain_console(quiet: bool = False) -> Console:
    """Where everything is printed."""
    return PlainConsole(quiet=quiet)
