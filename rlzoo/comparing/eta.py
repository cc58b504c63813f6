"""How long a grid will still take: what starting a run, a step and the last evaluation took so far."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import mean

from rlzoo.comparing.compare import CellStatus


@dataclass
class _Run:
    """When a run of this call was first seen at what it does, in seconds of one clock."""

    started: float | None = None
    stepped: float | None = None
    last_step: float | None = None
    ended: float | None = None
    steps_before: int = 0
    """Those that it had taken in an earlier call."""


@dataclass
class Eta:
    """Watches the runs of a call. A run costs its start, with an evaluation, its steps, and what follows the last."""

    runs: list[_Run] = field(default_factory=list)
    at_a_time: int = 1
    """The most that were seen to run at once: between two runs fewer do for a moment."""

    def see(self, cells: Sequence[CellStatus], now: float) -> None:
        """Where they stand `now`; always the same runs in the same order."""
        self.runs = self.runs or [_Run(steps_before=cell.step) for cell in cells]
        self.at_a_time = max(self.at_a_time, sum(cell.state == "running" for cell in cells))
        for cell, run in zip(cells, self.runs, strict=True):
            if cell.state == "running" and run.started is None:
                run.started = now
            if run.started is not None and run.stepped is None and cell.step > run.steps_before:
                run.stepped = now
            if run.started is not None and run.last_step is None and cell.step == cell.steps:
                run.last_step = now
            if run.started is not None and run.ended is None and cell.state in ("done", "failed"):
                run.ended = now

    def left(self, cells: Sequence[CellStatus], now: float) -> float | None:
        """Seconds until all are done; None before the first step has been seen."""
        steps = sum(cell.step for cell in cells)
        starts = [
            run.stepped - run.started - cell.seconds_a_step
            for cell, run in zip(cells, self.runs, strict=True)
            if run.started is not None and run.stepped is not None
        ]
        if not steps or not starts:
            return None
        step = sum(cell.step * cell.seconds_a_step for cell in cells) / steps
        start = max(0.0, mean(starts))
        ends = [run.ended - run.last_step for run in self.runs if run.ended is not None and run.last_step is not None]
        end = mean(ends) if ends else start  # both are little more than an evaluation
        waits = {"running": list[float](), "waiting": list[float]()}
        for cell, run in zip(cells, self.runs, strict=True):
            if cell.state in waits:
                waits[cell.state].append(self._left(cell, run, now, start, step, end))
        free_in = waits["running"] + [0.0] * (self.at_a_time - len(waits["running"]))
        heapq.heapify(free_in)
        for wait in waits["waiting"]:
            heapq.heapreplace(free_in, free_in[0] + wait)
        return max(free_in)

    @staticmethod
    def _left(cell: CellStatus, run: _Run, now: float, start: float, step: float, end: float) -> float:
        if run.started is None:
            return start + step * (cell.steps - cell.step) + end
        if run.stepped is None:
            return max(0.0, start - (now - run.started)) + step * (cell.steps - cell.step) + end
        if run.last_step is None:
            return step * (cell.steps - cell.step) + end
        return max(0.0, end - (now - run.last_step))
