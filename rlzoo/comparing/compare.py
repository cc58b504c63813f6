"""Runs a grid: every cell that is not done in a process of its own, several at a time if asked.

Each is an ordinary `rlzoo train ... resume=true`: a crash costs one cell, a killed grid goes on where it stopped, and a
cell whose worker is lost starts again. Child processes end with their parent, and hold the grid's lock too, so the next
call waits for the last of them; where a cluster's jobs live on, it waits until they let go of their folders.
"""

import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from objectives import parse
from rlzoo.comparing.finished_runs import finished_run
from rlzoo.comparing.forked_runs import LOST
from rlzoo.comparing.grid import Grid, GridCell, RowName
from rlzoo.comparing.initial_eval import share_initial_eval
from rlzoo.comparing.launchers import POLL, ExternalRun, Job, Launcher, Local, is_held, stop
from rlzoo.comparing.leaderboard import make_leaderboard
from rlzoo.config.decoding import read_decodings
from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate import Evaluation
from rlzoo.experiment.claim import LOCK
from rlzoo.experiment.identity import Code
from rlzoo.experiment.run_folder import METRICS
from rlzoo.files import locked, made_folder, read_json_lines
from rlzoo.statistics.interim_analyses import looks, next_look, wants_seeds
from rlzoo.statistics.verdicts import Measured

RETRIES = 2
"""How often a run whose worker is lost is started again before it has taken another step."""
RECENT = 10
"""Steps whose accuracy is averaged for the progress view."""
_LETTING_GO = 10.0
"""Seconds in which the processes of a comparison that was killed end, and leave its folder to the next."""


class ComparisonView(Protocol):
    """What a comparison tells a view."""

    def showing(self, cells: Sequence["CellStatus"]) -> AbstractContextManager[None]:
        """While runs are going on. `cells` is where they stand at the start."""
        ...

    def show(self, cells: Sequence["CellStatus"]) -> None:
        """Where they stand now."""
        ...


def compare(
    grid: Grid, jobs: int, view: ComparisonView, launcher: Launcher | None = None, equivalence: float = 0.0
) -> list["RunFailure"]:
    """Runs what is not done, and adds seeds if that was asked; returns the cells that failed.

    Without a launcher they are child processes. With an `equivalence` in points a row that is not better, worse or the
    same within it may get further seeds. Raises UserError if another call works on the folder.
    """
    grid.check()
    made_folder(grid.folder)
    with _locked(grid.folder) as lock, nullcontext(launcher) if launcher else closing(Local(jobs)) as starting:
        grid = grid.up_to_date()
        while True:
            grid.save()
            cells = [CellRun(cell) for cell in grid.cells]
            failures = _Scheduler(cells, jobs, view, starting, lock).run()
            more = grid if failures or not grid.up_to else with_further_seeds(grid, equivalence)
            if more is grid:
                return failures
            grid = more


def with_further_seeds(grid: Grid, equivalence: float = 0.0) -> Grid:
    """With further seeds for the rows that they may decide, and for the baseline; the same grid if there is none."""
    runs = [finished_run(cell) for cell in grid.cells]
    board = make_leaderboard(runs, grid.baseline, equivalence=equivalence, looks=len(looks(grid.up_to)))
    names = {cell.entry.identity: cell.entry.name for cell in grid.cells}
    counts = {
        names[row.identity]: next_look(len(row.seeds), grid.up_to)
        for row in board.rows
        if any(_wants_seeds(result.average, grid.up_to, equivalence) for result in row.results.values())
    }
    more = grid.with_seeds(counts | {names[board.baseline.identity]: max(counts.values(), default=0)})
    return more if more.further != grid.further else grid


def _wants_seeds(measured: Measured, up_to: int, equivalence: float) -> bool:
    verdict, difference = measured.verdict, measured.difference
    if difference is None:
        return False
    is_open = verdict.is_unstable or 100 * abs(difference.mean) < equivalence
    return wants_seeds(verdict.is_decided, is_open, difference.seeds_needed, up_to)


@contextmanager
def _locked(folder: Path) -> Iterator[IO[str]]:
    until = time.monotonic() + _LETTING_GO
    while (lock := locked(folder / LOCK)) is None:
        if time.monotonic() > until:
            raise UserError(f"output={folder} is being worked on by another rlzoo compare; wait for it, or stop it")
        time.sleep(POLL)
    with lock:
        yield lock


@dataclass(frozen=True)
class RunFailure:
    """A cell whose process failed, and the last line of what it said."""

    cell: GridCell
    message: str
    log: Path


@dataclass(frozen=True)
class CellStatus:
    """Where one run of a grid stands."""

    row: RowName
    seed: int
    state: str
    """`waiting`, `running`, `done` or `failed`."""
    step: int
    steps: int
    accuracy: float | None
    """Held out if done, otherwise of the latest training steps."""

    @property
    def name(self) -> str:
        """For a line of text."""
        return f"{self.row} seed {self.seed}"

    @property
    def progress(self) -> str:
        """Step and accuracy of a running cell."""
        return f"step {self.step}/{self.steps}" + ("" if self.accuracy is None else f", accuracy {self.accuracy:.3f}")


@dataclass
class CellRun:
    """A cell on its way."""

    cell: GridCell
    job: Job | None = None
    failed: bool = False
    lost: int = 0
    """How often its worker was, since it took a step."""
    steps: int = 0
    """Those that it had taken by then."""
    held_out: float | None = None
    """Its held-out accuracy, once it is done; read once, as the file has thousands of lines."""

    @property
    def log(self) -> Path:
        """What its process printed."""
        folder = self.cell.folder.path
        return folder.parent / "logs" / f"{folder.name}.txt"

    @property
    def lock(self) -> Path:
        """What a process that trains it holds."""
        return self.cell.folder / LOCK

    def status(self) -> CellStatus:
        """Where it stands, read from its folder."""
        folder, config, steps = self.cell.folder, self.cell.config, self.cell.config.train.steps
        decoding = read_decodings(config.evaluation.decodings)[0]
        metrics = read_json_lines(folder.metrics, METRICS)
        done, accuracy = folder.finished(config), None
        if done:
            if self.held_out is None:
                self.held_out = float(Evaluation.load(folder.evaluation(steps, decoding)).column("correct").mean())
            accuracy = self.held_out
        elif metrics:
            recent = [line["accuracy"] for line in metrics[-RECENT:]]
            accuracy = sum(recent) / len(recent)
        state = "done" if done else "failed" if self.failed else "running" if self.job else "waiting"
        return CellStatus(self.cell.row, self.cell.seed, state, len(metrics), steps, accuracy)

    @property
    def is_drawn(self) -> bool:
        """Whether it got as far as its curves, which come last: a kill may leave a run finished, and without them."""
        return self.cell.folder.curves.exists()

    def may_go_on(self) -> bool:
        """Once its worker is lost: whether it is worth another."""
        steps = len(read_json_lines(self.cell.folder.metrics))
        self.lost = 1 if steps > self.steps else self.lost + 1
        self.steps = max(self.steps, steps)
        return self.lost <= RETRIES


class _Scheduler:
    def __init__(
        self, runs: Sequence[CellRun], jobs: int, view: ComparisonView, launcher: Launcher, lock: IO[str]
    ) -> None:
        self.runs, self.jobs, self.view, self.launcher, self.lock = runs, jobs, view, launcher, lock
        self.failures: list[RunFailure] = []
        self.waiting: deque[CellRun] = deque()

    def run(self) -> list[RunFailure]:
        """Keeps `jobs` processes busy until nothing waits, and ends them if it is interrupted."""
        statuses = {id(run): run.status() for run in self.runs}
        self.waiting.extend(run for run in self.runs if not (statuses[id(run)].state == "done" and run.is_drawn))
        slots: dict[int, CellRun] = {}
        try:
            with self.view.showing(list(statuses.values())):
                while self.waiting or slots:
                    for slot in range(self.jobs):
                        if slot not in slots and self.waiting:
                            run = self.waiting.popleft()
                            if self._is_edited(run):
                                statuses[id(run)] = run.status()
                                continue
                            slots[slot] = run
                            self._start(run, slot)
                    statuses |= {id(run): run.status() for run in slots.values()}
                    self.view.show(list(statuses.values()))
                    time.sleep(POLL)
                    for slot, run in list(slots.items()):
                        if run.job and (status := run.job.poll()) is not None:
                            self._end(slots.pop(slot), status)
                            statuses[id(run)] = run.status()
                self.view.show(list(statuses.values()))
        finally:
            stop([run.job for run in slots.values() if run.job and not isinstance(run.job, ExternalRun)])
        return self.failures

    def _start(self, run: CellRun, slot: int) -> None:
        is_trained = is_held(run.lock)
        if not is_trained:
            share_initial_eval(run.cell, (other.cell for other in self.runs))
        run.job = ExternalRun(run.lock) if is_trained else self.launcher.start(run.cell.words, run.log, slot, self.lock)

    def _is_edited(self, run: CellRun) -> bool:
        """Whether its code is no longer what the comparison began with, which it then counts as failed for."""
        cell = run.cell
        try:
            is_edited = bool(Code.of(cell.config, parse(cell.entry.expression)).changes(cell.entry.code))
        except UserError:
            is_edited = True
        if is_edited:
            run.failed = True
            self.failures.append(RunFailure(cell, "its code was edited while others were trained", run.log))
        return is_edited

    def _end(self, run: CellRun, status: int) -> None:
        was_external, run.job = isinstance(run.job, ExternalRun), None
        if run.cell.folder.finished(run.cell.config) and (run.is_drawn or status >= 0):
            return
        if was_external or ((status < 0 or is_held(run.lock)) and run.may_go_on()):
            self.waiting.appendleft(run)
            return
        run.failed = True
        self.failures.append(RunFailure(run.cell, _why_failed(run.log, status), run.log))


def _why_failed(log: Path, status: int) -> str:
    """Why a process failed: the signal that ended it, or the last line of what it said."""
    if status < 0:
        return "its worker was lost" if status == LOST else f"ended by {signal.Signals(-status).name}"
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


# ---- how long it will still take -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Eta:
    """The time that is left at the pace of this call, in which runs also start and are evaluated."""

    began: float
    """In seconds, of the clock that `left` is asked by."""
    steps: int
    """All that runs had taken by then."""

    @classmethod
    def of(cls, cells: Sequence[CellStatus], now: float) -> "Eta":
        """For a call that begins now."""
        return cls(now, sum(cell.step for cell in cells))

    def left(self, cells: Sequence[CellStatus], now: float) -> float | None:
        """Seconds until all are done; None before the first step of this call."""
        taken = sum(cell.step for cell in cells) - self.steps
        to_do = sum(cell.steps - cell.step for cell in cells if cell.state in ("running", "waiting"))
        return (now - self.began) / taken * to_do if taken > 0 else None  # a resumed run may begin before its last step
