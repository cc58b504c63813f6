"""Runs a grid: every cell that is not done in a child process of its own, several at a time if asked.

A child is an ordinary `rlzoo train ... resume=true`, so a crash costs one cell and a killed grid goes on where it
stopped. Children end with their parent, and the grid's lock is theirs too, so the next call waits for the last of them.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

import torch

from rlzoo.comparing.finished_runs import finished_run
from rlzoo.comparing.grid import Cell, Grid
from rlzoo.comparing.leaderboard import make_leaderboard
from rlzoo.comparing.sequential import looks, next_look, row_wants_seeds
from rlzoo.config.decoding import read_decodings
from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate import Evaluation
from rlzoo.experiment.claim import LOCK
from rlzoo.files import locked, read_json_lines

POLL = 0.2
"""Seconds between looks at the children."""
PATIENCE = 10.0
"""Seconds that children have to end: those of this call once it is interrupted, those of a killed one at the start."""
RECENT = 10
"""Steps whose accuracy is averaged for the progress view."""

_prctl = getattr(ctypes.CDLL(None), "prctl", None)
_SET_PARENT_DEATH_SIGNAL = 1


class ComparisonView(Protocol):
    """What a comparison tells whoever looks on."""

    def showing(self, cells: Sequence["CellStatus"]) -> AbstractContextManager[None]:
        """While runs are going on. `cells` is where they stand at the start."""
        ...

    def show(self, cells: Sequence["CellStatus"]) -> None:
        """Where they stand now."""
        ...


def compare(grid: Grid, jobs: int, view: ComparisonView) -> list["Failure"]:
    """Runs what is not done, and adds seeds if that was asked; returns the cells that failed.

    Raises UserError if another call works on the folder.
    """
    grid.check()
    try:
        grid.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"output={grid.folder} cannot be written: {error.strerror}") from None
    with _locked(grid.folder) as lock:
        while True:
            grid.save()
            failures = _Scheduler([Run(cell) for cell in grid.cells], jobs, view, lock).run()
            more = grid if failures or not grid.up_to else with_further_seeds(grid)
            if more is grid:
                return failures
            grid = more


def with_further_seeds(grid: Grid) -> Grid:
    """With further seeds for the rows that they may decide, and for the baseline; the same grid if there is none."""
    runs = [finished_run(cell) for cell in grid.cells]
    board = make_leaderboard(runs, grid.baseline, looks=len(looks(grid.up_to)))
    names = {cell.objective: cell.entry.name for cell in grid.cells}
    counts = {
        names[row.objective]: next_look(len(row.seeds), grid.up_to)
        for row in board.rows
        if row_wants_seeds([it.average for it in row.results.values()], grid.up_to)
    }
    more = grid.with_seeds(counts | {names[board.baseline]: max(counts.values(), default=0)})
    return more if more.further != grid.further else grid


@contextmanager
def _locked(folder: Path) -> Iterator[IO[str]]:
    until = time.monotonic() + PATIENCE
    while (lock := locked(folder / LOCK)) is None:
        if time.monotonic() > until:
            raise UserError(f"output={folder} is being worked on by another rlzoo compare; wait for it, or stop it")
        time.sleep(POLL)
    with lock:
        yield lock


@dataclass(frozen=True)
class Failure:
    """A cell whose process failed, and the last line of what it said."""

    cell: Cell
    message: str
    log: Path


@dataclass(frozen=True)
class CellStatus:
    """Where one run of a grid stands."""

    objective: str
    seed: int
    state: str
    """`waiting`, `running`, `done` or `failed`."""
    step: int
    steps: int
    accuracy: float | None
    """Held out if done, otherwise of the latest training steps."""

    @property
    def work_done(self) -> float:
        """From 0 to 1; what is left after the last step is the evaluation."""
        return 1.0 if self.state in ("done", "failed") else 0.95 * self.step / self.steps

    @property
    def name(self) -> str:
        """For a line of text."""
        return f"{self.objective} seed {self.seed}"

    @property
    def progress(self) -> str:
        """Step and accuracy of a running cell."""
        return f"step {self.step}/{self.steps}" + ("" if self.accuracy is None else f", accuracy {self.accuracy:.3f}")


@dataclass
class Run:
    """A cell on its way."""

    cell: Cell
    process: subprocess.Popen[bytes] | None = None
    failed: bool = False

    def status(self) -> CellStatus:
        """Where it stands, read from its folder."""
        folder, config, steps = self.cell.folder, self.cell.config, self.cell.config.train.steps
        decoding = read_decodings(config.evaluation.decodings)[0]
        metrics = read_json_lines(folder.metrics)
        done, accuracy = folder.finished(config), None
        if done:
            accuracy = float(Evaluation.load(folder.evaluation(steps, decoding)).column("correct").mean())
        elif metrics:
            recent = [line["accuracy"] for line in metrics[-RECENT:]]
            accuracy = sum(recent) / len(recent)
        state = "done" if done else "failed" if self.failed else "running" if self.process else "waiting"
        return CellStatus(self.cell.objective, self.cell.seed, state, len(metrics), steps, accuracy)

    def start(self, log: Path, environment: Mapping[str, str], lock: IO[str]) -> None:
        """Starts its process; what that prints goes into `log`."""
        log.parent.mkdir(exist_ok=True)
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rlzoo", "train", *self.cell.words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                pass_fds=[lock.fileno()],
                start_new_session=True,  # Ctrl-C reaches the parent alone, which then ends its children
                preexec_fn=_end_with_parent,
            )


def _end_with_parent() -> None:
    """Has Linux end this process when its parent is gone, however that ended; elsewhere, it works on to its end."""
    if sys.platform == "linux" and _prctl is not None:
        _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)


class _Scheduler:
    def __init__(self, runs: Sequence[Run], jobs: int, view: ComparisonView, lock: IO[str]) -> None:
        self.runs, self.jobs, self.view, self.lock = runs, jobs, view, lock
        self.failures: list[Failure] = []

    def run(self) -> list[Failure]:
        """Keeps `jobs` processes busy until nothing waits, and ends them if it is interrupted."""
        statuses = {id(run): run.status() for run in self.runs}
        waiting = deque(run for run in self.runs if statuses[id(run)].state != "done")
        slots: dict[int, Run] = {}
        try:
            with self.view.showing(list(statuses.values())):
                while waiting or slots:
                    for slot in range(self.jobs):
                        if slot not in slots and waiting:
                            slots[slot] = waiting.popleft()
                            slots[slot].start(self._log(slots[slot]), environment_of(slot, self.jobs), self.lock)
                    statuses |= {id(run): run.status() for run in slots.values()}
                    self.view.show(list(statuses.values()))
                    time.sleep(POLL)
                    for slot in [slot for slot, run in slots.items() if run.process and run.process.poll() is not None]:
                        run = slots.pop(slot)
                        self._end(run)
                        statuses[id(run)] = run.status()
                self.view.show(list(statuses.values()))
        finally:
            _stop([run.process for run in slots.values() if run.process])
        return self.failures

    def _end(self, run: Run) -> None:
        if run.cell.folder.finished(run.cell.config):
            return
        run.failed, log = True, self._log(run)
        lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").split("\n")]
        said = next((line for line in reversed(lines) if line), "it said nothing")
        status = run.process.returncode if run.process else 0
        said = f"ended by {signal.Signals(-status).name}" if status < 0 else said
        self.failures.append(Failure(run.cell, said, log))

    def _log(self, run: Run) -> Path:
        folder = run.cell.folder.path
        return folder.parent / "logs" / f"{folder.name}.txt"


def environment_of(slot: int, jobs: int) -> dict[str, str]:
    """An equal share of the cores unless the user has settled that, and of several accelerators one in turn."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    environment = {"OMP_NUM_THREADS": str(max(1, cores // jobs)), **os.environ}
    devices = _devices()
    if jobs > 1 and len(devices) > 1:
        environment["CUDA_VISIBLE_DEVICES"] = devices[slot % len(devices)]
    return environment


def _devices() -> list[str]:
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",") if named else [str(number) for number in range(torch.cuda.device_count())]


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Asks them to end, then makes them."""
    for process in processes:
        process.send_signal(signal.SIGINT)
    until = time.monotonic() + PATIENCE
    for process in processes:
        try:
            process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
