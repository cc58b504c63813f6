"""Runs that are done, read back from their folders, and whether they may be compared."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from rlzoo.comparing.default_folder import GRID
from rlzoo.comparing.grid import NO_SWEEP, Cell, Grid
from rlzoo.comparing.sweep import Sweep
from rlzoo.config import Config, flat
from rlzoo.config.decoding import Decoding, read_decodings
from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate import Evaluation, read_evaluations
from rlzoo.experiment.claim import FREE_TO_CHANGE
from rlzoo.experiment.identity import Recorded, trained_in
from rlzoo.experiment.run_folder import RunFolder, missing_steps
from rlzoo.files import read_json_lines

MAY_DIFFER = ("objective", "seed", *(key for key in FREE_TO_CHANGE if key != "train.steps"))
"""Keys that runs of one table may set differently."""


@dataclass(frozen=True)
class FinishedRun:
    """One trained model: its settings and what its folder says."""

    folder: RunFolder
    config: Config
    name: str
    """How the objective was asked for."""
    files: Mapping[Decoding, Path]
    """The responses to held-out problems after the last step."""
    sweep: Sweep = NO_SWEEP

    @property
    def identity(self) -> tuple[str, tuple[tuple[str, float | str], ...]]:
        """Of its row."""
        return self.objective.key, self.sweep.meant

    @cached_property
    def objective(self) -> Recorded:
        """What it was trained with."""
        return trained_in(self.folder.path)

    @cached_property
    def evaluations(self) -> Mapping[Decoding, Evaluation]:
        """After the last step."""
        return {it: Evaluation.load(path) for it, path in self.files.items()}

    @cached_property
    def asked(self) -> list[tuple[Any, ...]]:
        """The held-out problems: id, prompt and answer."""
        records = (it for own in self.evaluations.values() for it in own.records[:: own.samples])
        return [(it["problem"], it["prompt"], it["answer"]) for it in records]

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """One record per step. Raises UserError if some are lost."""
        lines = read_json_lines(self.folder.metrics)
        lost = missing_steps(lines, self.config.train.steps)
        if lost:
            raise UserError(f"{self.folder.metrics} is damaged: it has lost {lost}; leave this run out")
        return lines

    @cached_property
    def timings(self) -> list[dict[str, float]]:
        """One record per step."""
        return read_json_lines(self.folder.timings)

    @cached_property
    def environment(self) -> dict[str, str | None]:
        """Versions, commit and machine."""
        return dict(json.loads((self.folder / "environment.json").read_text(encoding="utf-8")))

    @cached_property
    def held_out(self) -> Mapping[int, float]:
        """Accuracy of every evaluation that training made with its first decoding, by step."""
        decoding = read_decodings(self.config.evaluation.decodings)[0]
        evaluations = read_evaluations(self.folder, decoding)
        return {step: float(own.column("correct").mean()) for step, own in evaluations.items()}

    def curve(self, name: str) -> np.ndarray:
        """[steps] values of a metric."""
        return np.array([line[name] for line in self.metrics], dtype=np.float64)


def read_runs(folders: Iterable[str]) -> tuple[list[FinishedRun], str, list[str]]:
    """The runs in folders of runs and of grids, the baseline that a grid names or "", and what was left out.

    A folder may also hold several runs. Raises UserError for one that holds none, and for a run that is named and not
    done.
    """
    runs: list[FinishedRun] = []
    baseline, notes = "", []
    for name in folders:
        path = Path(name)
        if (path / GRID).exists():
            grid = Grid.load(path)
            baseline = baseline or grid.baseline
            done = [finished_run(cell) for cell in grid.cells if cell.folder.finished(cell.config)]
            runs += done
            notes += _left_out(len(grid.cells) - len(done), len(grid.cells), path)
        elif not RunFolder(path).config.exists() and (inside := sorted(path.glob("*/config.yaml"))):
            found = [(folder, folder.read_config()) for folder in (RunFolder(it.parent) for it in inside)]
            done = [_finished(folder, config, config.objective) for folder, config in found if folder.finished(config)]
            runs += done
            notes += _left_out(len(found) - len(done), len(found), path)
        else:
            runs.append(read_run(RunFolder(path)))
    if not runs:
        raise UserError("no run is done yet; the same rlzoo compare goes on with them")
    return runs, baseline, notes


def _left_out(missing: int, count: int, path: Path) -> list[str]:
    return [f"{missing} of the {count} runs of {path} are not done and left out."] * (missing > 0)


def finished_run(cell: Cell) -> FinishedRun:
    """Of a cell that is done."""
    return _finished(cell.folder, cell.config, cell.entry.asked, cell.entry.sweep)


def read_run(folder: RunFolder) -> FinishedRun:
    """The run in a folder. Raises UserError if there is none, or if it is not done."""
    if not folder.config.exists():
        raise UserError(f"{folder.path} holds neither a run (config.yaml) nor a grid ({GRID})")
    config = folder.read_config()
    if not folder.finished(config):
        done = len(read_json_lines(folder.metrics))
        raise UserError(
            f"the run in {folder.path} is not done (step {done} of {config.train.steps}); "
            f"rlzoo train {folder.config} resume=true goes on with it"
        )
    cell = _cell_of(folder)
    return finished_run(cell) if cell else _finished(folder, config, config.objective)


def _cell_of(folder: RunFolder) -> Cell | None:
    """The cell of the grid around it, which knows how it was asked for."""
    around = folder.path.parent
    cells = Grid.load(around).cells if (around / GRID).exists() else []
    return next((cell for cell in cells if cell.folder.path.resolve() == folder.path.resolve()), None)


def _finished(folder: RunFolder, config: Config, name: str, sweep: Sweep = NO_SWEEP) -> FinishedRun:
    decodings = read_decodings(config.evaluation.decodings)
    files = {it: folder.evaluation(config.train.steps, it) for it in decodings}
    return FinishedRun(folder, config, name, files, sweep)


def check_comparable(runs: Sequence[FinishedRun]) -> None:
    """Refuses runs that differ in anything but objective and seed. Raises UserError naming what differs."""
    first, seen = runs[0], dict[object, FinishedRun]()
    settings = flat(asdict(first.config))
    for run in runs:
        other = seen.setdefault((run.identity, run.config.seed), run)
        if other is not run:
            raise UserError(
                f"{other.folder.path} and {run.folder.path} are both {run.objective.shortest} with "
                f"seed={run.config.seed}; leave one of them out"
            )
        swept = {word.partition("=")[0] for word in run.sweep.words}
        swept &= {word.partition("=")[0] for word in first.sweep.words}
        for key, value in flat(asdict(run.config)).items():
            if settings.get(key) != value and not key.startswith(MAY_DIFFER) and key not in swept:
                raise UserError(
                    f"{first.folder.path} and {run.folder.path} cannot be compared: "
                    f"{key} is {settings.get(key)} in one and {value} in the other"
                )
        if run.asked != first.asked:
            own, their = next((a, b) for a, b in zip_longest(first.asked, run.asked, fillvalue=("none",)) if a != b)
            raise UserError(
                f"{first.folder.path} and {run.folder.path} cannot be compared: they were evaluated on different "
                f"problems, {own[0]} in one and {their[0]} in the other"
            )
