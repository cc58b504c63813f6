"""Trains healthy runs and runs with faults, and writes how often the doctor errs.

python -m benchmarks.doctor fixed 100 90           # faulty and healthy runs on which thresholds were fixed
python -m benchmarks.doctor measured 200 300       # others, on which error rates are measured
python -m benchmarks.doctor long 20 30             # runs of 100 steps, for what shorter ones cannot tell
python -m benchmarks.doctor replace embedded 20 60    # the shipped models; `replace` removes the recorded runs first
python -m benchmarks.doctor hiding                 # three faults that hide each other, mended one after the other

Each run has one thread. What is recorded is not trained again, so that the same words go on where they were stopped.
"""

import csv
import itertools
import logging
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.doctor.cells import Cell, run_cell
from benchmarks.doctor.design import EMBEDDED, FIXED, LONG, MEASURED
from benchmarks.doctor.faults import FAULTS
from benchmarks.doctor.rates import alarms, curve, missed, summary
from benchmarks.doctor.runs import RESULTS, forget, measure, read
from rlzoo.doctor.detectors import DETECTORS, examine
from rlzoo.files import write_json, write_text
from rlzoo.model.accelerator import one_thread

SPLITS = {split.name: split for split in (FIXED, MEASURED, LONG, EMBEDDED)}
STARTS = Path(tempfile.gettempdir()) / "rlzoo-doctor-starts"
REPLACE = "replace"
HIDING = ("empty, epsilon, reversed", "epsilon, reversed", "reversed log-softmax")
"""Each is the one before with the first of its faults mended."""


def main(words: list[str]) -> None:
    """Does what is asked, then writes the results again."""
    logging.disable(logging.WARNING)
    is_replaced, words = REPLACE in words[:1], [word for word in words if word != REPLACE]
    if is_replaced and words and words[0] in SPLITS:
        forget(words[0])
    with one_thread():
        if words and words[0] in SPLITS:
            split, faulty, healthy = SPLITS[words[0]], int(words[1]), int(words[2])
            measure(split.name, [*split.faulty(faulty), *split.healthy(healthy)], STARTS)
        elif words == ["hiding"]:
            hiding()
    write_results()


def hiding() -> None:
    """Prints what is found in a run with three faults, with two of them, and with one; then with a shipped model."""
    faults = {fault.name: fault for fault in FAULTS}
    for base, name in itertools.product((MEASURED.bases[0], EMBEDDED.bases[0]), HIDING):
        examination = examine(run_cell(Cell(base, "grpo-kl", 7, faults[name]), STARTS))
        found = "; ".join(f"{it.name} ({it.reason})" if it.reason else it.name for it in examination.findings)
        print(f"{base.name}, {name}: {found or 'nothing'}; not looked at: {', '.join(examination.unseen) or 'nothing'}")


def write_results() -> None:
    """The curves, and the rates, of which `benchmarks.evidence` makes what is shipped; says where the doctor erred."""
    runs = {name: read(name) for name in SPLITS}
    rates = {name: {"steps": SPLITS[name].steps, **summary(done)} for name, done in runs.items()}
    write_json(RESULTS / "rates.json", rates)
    write_text(RESULTS / "rates.md", "\n".join(table(name, total) for name, total in rates.items()))
    with (RESULTS / "curves.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["split", "detector", "threshold", "found", "faulty", "alarms", "healthy"])
        for name, done in runs.items():
            for detector in DETECTORS:
                rows = curve(detector, done)
                writer.writerows([name, detector.name, *(f"{value:.5g}" for value in row.values())] for row in rows)
    for name, done in runs.items():
        total = rates[name]
        print(f"{name}: {total['found']} of {total['faulty']} found, {total['alarms']} alarms in {total['healthy']}")
        for run in missed(done):
            print(f"  missed: {run.fault} in {run.base}, {run.objective}, seed {run.seed}; shows {alarms(run)}")
        for run in done:
            if not run.fault and alarms(run):
                print(f"  alarm: {alarms(run)} in {run.base}, {run.objective}, seed {run.seed}")


def table(name: str, total: Mapping[str, Any]) -> str:
    """The rates of a split in Markdown."""
    heading = f"## {name}: {total['found']} of {total['faulty']} faulty runs found, {total['alarms']} alarms in "
    lines = [
        f"{heading}{total['healthy']} healthy ones",
        "",
        "| detector | threshold | found | alarms |",
        "|---|---|---|---|",
    ]
    for detector, it in total["detectors"].items():
        found = f"{it['found']} of {it['faulty']}" if it["faulty"] else "-"
        alarmed = f"{it['alarms']} of {it['healthy']}" if it["healthy"] else "-"
        lines.append(f"| {detector} | {it['threshold']:g} | {found} | {alarmed} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main(sys.argv[1:])
