"""Trains what is missing and keeps of each run how bad every signal became: from that alone all rates follow."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.doctor.cells import Cell, run_cell
from rlzoo.doctor.detectors import DETECTORS
from rlzoo.doctor.indicators import Table
from rlzoo.files import append_json_line, read_json_lines

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Measured:
    """A run, as it is kept."""

    base: str
    objective: str
    seed: int
    fault: str
    """Empty for a healthy one."""
    severity: float
    worst: Mapping[str, float]
    """Detector -> its signal at its worst; without those that say nothing."""


def path_of(split: str) -> Path:
    """The file of a split."""
    return RESULTS / f"{split}.jsonl"


def read(split: str) -> list[Measured]:
    """The runs of a split that are done."""
    return [Measured(**line) for line in read_json_lines(path_of(split))]


def forget(split: str) -> None:
    """Removes the runs of a split, which are then trained again."""
    path_of(split).unlink(missing_ok=True)


def measure(split: str, cells: Iterable[Cell], starts: Path) -> None:
    """Trains the cells that are not done, and appends what they gave."""
    done = {(run.base, run.objective, run.seed, run.fault) for run in read(split)}
    for cell in cells:
        if cell.key in done:
            continue
        table = run_cell(cell, starts)
        append_json_line(path_of(split), _record(cell, table))


def _record(cell: Cell, table: Table) -> dict[str, Any]:
    base, objective, seed, fault = cell.key
    worst = {detector.name: detector.worst(table) for detector in DETECTORS}
    known = {name: float(f"{value:.5g}") for name, value in worst.items() if not math.isnan(value)}
    severity = round(cell.severity, 3) if fault else 0.0
    return {"base": base, "objective": objective, "seed": seed, "fault": fault, "severity": severity, "worst": known}
