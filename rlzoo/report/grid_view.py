"""What a comparison shows while it works: one table that changes in place, or plain lines in a pipe."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from rlzoo.comparing.compare import CellStatus, Eta
from rlzoo.report.table import Cell, Column, Table, plain_console
from rlzoo.report.terminal import clock

PLAIN_EVERY = 30.0
"""Seconds between two lines of progress where nothing can change in place."""


class GridView:
    """Shows a grid's progress."""

    def __init__(self, console: Console | None = None, quiet: bool = False) -> None:
        self.console = console or plain_console(quiet)
        self.live: Live | None = None
        self.last_line, self.eta = 0.0, Eta.of((), 0.0)
        self.states: list[str] = []

    @contextmanager
    def showing(self, cells: Sequence[CellStatus]) -> Iterator[None]:
        """While runs are going on. `cells` is where they stand at the start."""
        self.last_line = time.monotonic()
        self.eta = Eta.of(cells, self.last_line)
        self.states = [cell.state for cell in cells]
        if not self.console.is_terminal:
            yield
            return
        with Live(console=self.console, auto_refresh=False, transient=True) as self.live:
            yield

    def show(self, cells: Sequence[CellStatus]) -> None:
        """Where they stand now."""
        if self.live is not None:
            self.live.update(self.table(cells), refresh=True)
            return
        for cell, before in zip(cells, self.states, strict=True):
            if cell.state != before:
                ending = "" if cell.accuracy is None else f", accuracy {cell.accuracy:.3f}"
                what = {"running": "started", "done": f"done{ending}"}.get(cell.state, cell.state)
                self._print(f"{cell.name}: {what}" + (f"  [{self.summary(cells)}]" if cell.state == "done" else ""))
        self.states = [cell.state for cell in cells]
        if time.monotonic() - self.last_line > PLAIN_EVERY:
            self._print("; ".join(f"{cell.name}: {cell.progress}" for cell in cells if cell.state == "running"))
            self._print(f"[{self.summary(cells)}]")

    def _print(self, line: str) -> None:
        self.console.print(Text(line), soft_wrap=True)
        self.last_line = time.monotonic()

    def summary(self, cells: Sequence[CellStatus]) -> str:
        """How many runs are done, and how long the others will take at the pace of this call."""
        text = f"{sum(cell.state == 'done' for cell in cells)}/{len(cells)} runs done"
        left = self.eta.left(cells, time.monotonic())
        return f"{text}, {clock(left)} left" if left else text

    def table(self, cells: Sequence[CellStatus]) -> Group:
        """Objectives by seeds, and a line for each that is running."""
        seeds = list(dict.fromkeys(cell.seed for cell in cells))
        at = {(cell.row, cell.seed): cell for cell in cells}
        names = dict.fromkeys(cell.row for cell in cells)
        rows = [[Cell(str(row), is_code=True), *(_entry(at.get((row, seed))) for seed in seeds)] for row in names]
        columns = [Column("objective, by seed", is_text=True), *(Column(str(seed)) for seed in seeds)]
        running = [Text(f"{cell.name}: {cell.progress}", overflow="fold") for cell in cells if cell.state == "running"]
        return Group(Table(columns, rows), *running, Text(self.summary(cells), style="bold"))


def _entry(cell: CellStatus | None) -> Cell:
    if cell is None:
        return Cell("")
    if cell.state == "done" and cell.accuracy is not None:
        return Cell(f"{cell.accuracy:.3f}", kind="strong")
    if cell.state == "running":
        return Cell(f"{cell.step}/{cell.steps}")
    return Cell("failed", kind="strong") if cell.state == "failed" else Cell("-", kind="soft")
