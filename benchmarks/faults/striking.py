"""Kills a command at a random moment again and again, lets it end, and compares what it left."""

import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from benchmarks.faults.comparing import (
    differences,
    finished_steps,
    has_evaluated,
    is_evaluated_after,
    runs_in,
    saved_steps,
)
from benchmarks.faults.starting import LOG, Started, import_all, start
from benchmarks.faults.workloads import OUTPUT, Workload
from rlzoo.comparing.grid import Grid
from rlzoo.comparing.grid_words import GRID
from rlzoo.comparing.launchers import is_held
from rlzoo.experiment.claim import LOCK
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import append_json_line, read_json, read_json_lines, write_json

FRESH = 8
"""One start in so many is of fresh processes; the others need not import anything first."""
WHOLE = "whole"
"""Where the undisturbed run lies."""
PAUSE = 0.3
"""Seconds at most that a command goes on at its moment: a moment counts what is calculated, and a command waits too."""
PATIENCE = 120.0
"""Seconds in which what was told to end has to."""


@dataclass(frozen=True)
class Strike:
    """One signal."""

    workload: str
    start: int
    """Which start of the workload it came in."""
    moment: float
    """Seconds of the processor that it had had in that start."""
    of: float
    """Those of an undisturbed run from such a start; the moment was drawn from all in which anything is at stake."""
    seconds: float
    """After that start, on the clock."""
    fresh: bool
    """Whether its processes were fresh, and not forked."""
    whom: str
    """`group`, or one `process` alone."""
    under_way: str
    """What was, as far as files show it."""
    status: int
    """With which it ended."""
    lost: int
    """Steps that had a line of metrics before, and no checkpoint once it had ended."""
    left: int
    """Processes that were still there afterwards."""


@dataclass(frozen=True)
class End:
    """A run that went on until it ended."""

    workload: str
    start: int
    status: int
    strikes: int
    """That it had."""
    differences: list[str]
    """From the undisturbed run, in words."""


@dataclass(frozen=True)
class Trial:
    """Kills a workload `wanted` times with a signal, in a folder that it can go on in."""

    workload: Workload
    number: signal.Signals
    wanted: int
    folder: Path
    record: Path
    seed: int = 0

    def __call__(self, tell: Callable[[str], None] = print) -> None:
        """Does what is not recorded yet. Raises ChildProcessError if the undisturbed run fails."""
        seconds = self._undisturbed()
        mine = [line for line in read_json_lines(self.record) if line["workload"] == self.workload.name]
        starts, strikes = len(mine), sum("moment" in line and line["status"] != 0 for line in mine)
        since_end = next((i for i, line in enumerate(reversed(mine)) if "moment" not in line), len(mine))
        while strikes < self.wanted or since_end:
            rng = random.Random(f"{self.seed} {self.workload.name} {self.number} {starts}")
            result = self._start(starts, since_end, seconds, rng, is_last=strikes >= self.wanted)
            append_json_line(self.record, asdict(result))
            tell(f"{self.number.name} {result}")
            is_strike = isinstance(result, Strike)
            came_in_time = is_strike and result.status != 0
            starts, strikes, since_end = starts + 1, strikes + came_in_time, since_end + 1 if is_strike else 0

    def _undisturbed(self) -> float:
        """Seconds of the processor that a fork takes to the end of the workload, which is kept to compare with."""
        known = self.folder / "seconds.json"
        if known.is_file():
            return float(read_json(known.read_text(encoding="utf-8")))
        shutil.rmtree(self.folder, ignore_errors=True)
        started = start(self.workload, self.folder / WHOLE, fresh=False)
        _, seconds = started.spend()
        if started.status:
            raise ChildProcessError(f"{self.workload.name} fails undisturbed: {self.folder / WHOLE / LOG}")
        write_json(known, seconds)
        return seconds

    def _start(self, number: int, strikes: int, seconds: float, rng: random.Random, is_last: bool) -> Strike | End:
        fresh = rng.randrange(FRESH) == 0
        imports = import_all()
        of = seconds + fresh * self.workload.processes * imports
        moment = rng.uniform(self.workload.started * imports, of)
        pause, whom = rng.uniform(0, PAUSE), rng.choice(("group", "process"))
        struck, before = self.folder / "struck", time.time()
        started = start(self.workload, struck, fresh)
        has_ended, used = started.spend() if is_last else started.spend(moment)
        if has_ended or started.ends_within(pause):
            return self._end(number, strikes, started.status)
        stage, after = under_way(struck / OUTPUT, before), time.time() - before
        finished, family = finished_steps(struck / OUTPUT), started.family()
        whom = "group" if self.number == signal.SIGTERM else whom
        self._strike(started, whom, rng)
        left = psutil.wait_procs(family, timeout=PATIENCE)[1]
        for process in left:
            process.kill()
        started.ends_within(PATIENCE)
        if not started.status:  # it was faster than the signal
            return self._end(number, strikes, 0)
        saved = saved_steps(struck / OUTPUT)
        lost = max((done - saved.get(name, 0) for name, done in finished.items()), default=0)
        return Strike(
            *(self.workload.name, number, round(used, 2), round(of, 2), round(after, 2), fresh, whom, stage),
            status=started.status,
            lost=max(lost, 0),
            left=len(left),
        )

    def _strike(self, started: Started, whom: str, rng: random.Random) -> None:
        """A single process is the first, or of several that train one of them; its fellows are ended if they hang."""
        if self.number == signal.SIGTERM:
            started.terminate_groups()
        elif whom == "group":
            started.kill()
        else:
            trains = list(started.heads)
            if self.workload.processes > 1 and len(trains) == 1:  # torchrun, and those that it has started
                trains = trains[0].children() or trains
            rng.choice(trains).kill()
            if self.workload.processes > 1 and not started.ends_within(10):
                started.kill()

    def _end(self, number: int, strikes: int, status: int) -> End:
        whole, struck = self.folder / WHOLE / OUTPUT, self.folder / "struck"
        found = differences(whole, struck / OUTPUT)
        if status or found:
            shutil.copytree(struck, self.folder / f"wrong-{number}", dirs_exist_ok=True)
        shutil.rmtree(struck)
        return End(self.workload.name, number, status, strikes, found)


def under_way(output: Path, since: float) -> str:
    """What a command does that was started at a moment (of `time.time`), as far as its files show it.

    Of a grid whose runs do several things, all of them.
    """
    if runs := [run for run in runs_in(output) if is_held(run / LOCK)]:
        return " and ".join(sorted({_stage(run, since) for run in runs}))
    if not any(is_held(path) for path in output.rglob(LOCK)):
        return "starting"
    if any(output.glob("*.parts")):
        return "evaluating"
    return "concluding" if _is_trained_grid(output) else "setting up"


def _stage(run: RunFolder, since: float) -> str:
    """Of a run that a process trains."""
    if any((run / "checkpoints").glob(".step-*")):
        return "saving"
    if run.end.exists():
        return "concluding"
    if run.metrics.stat().st_mtime < since:
        return "loading"
    step = run.metrics.read_bytes().count(b"\n")
    if step == 0:
        return "training" if has_evaluated(run, step) else "evaluating before the first step"
    return "evaluating" if is_evaluated_after(run, step) and not has_evaluated(run, step) else "training"


def _is_trained_grid(output: Path) -> bool:
    """Whether all runs of a grid have come to their end, so that only its board is left to be made."""
    return (output / GRID).exists() and all(cell.folder.finished(cell.config) for cell in Grid.load(output).cells)


def read(record: Path) -> Iterator[Strike | End]:
    """What was recorded."""
    for line in read_json_lines(record):
        yield Strike(**line) if "moment" in line else End(**line)
