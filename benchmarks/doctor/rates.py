"""From kept runs to error rates: how often each detector, and all of them together, find and alarm."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.doctor.faults import FAULTS
from benchmarks.doctor.runs import Measured
from rlzoo.doctor.detectors import DETECTORS, Detector

SHOWS: Mapping[str, Sequence[str]] = {fault.name: fault.shows for fault in FAULTS}
POINTS = 24
"""Of a curve, at most."""


def shows(detector: Detector, run: Measured, threshold: float | None = None) -> bool:
    """Whether a detector finds something in a run, at this threshold or its own."""
    limit = detector.threshold if threshold is None else threshold
    worst = run.worst.get(detector.name, math.nan)
    return worst <= limit if detector.below else worst >= limit


def is_found(run: Measured) -> bool:
    """Whether one of the findings that name its fault shows."""
    return any(shows(detector, run) for detector in DETECTORS if detector.name in SHOWS[run.fault])


def alarms(run: Measured) -> list[str]:
    """All detectors that show in a run."""
    return [detector.name for detector in DETECTORS if shows(detector, run)]


def counts(detector: Detector, runs: Iterable[Measured], threshold: float | None = None) -> dict[str, Any]:
    """Of the faulty runs that it is for, in how many it shows; and of the healthy ones of which it says anything."""
    faulty, healthy = _its_runs(detector, runs)
    limit = detector.threshold if threshold is None else threshold
    return {
        "threshold": limit,
        "found": sum(shows(detector, run, limit) for run in faulty),
        "faulty": len(faulty),
        "alarms": sum(shows(detector, run, limit) for run in healthy),
        "healthy": len(healthy),
    }


def curve(detector: Detector, runs: Sequence[Measured]) -> list[dict[str, Any]]:
    """The same at every threshold at which something changes, thinned to some, the strictest first."""
    faulty, healthy = _its_runs(detector, runs)
    values = {run.worst[detector.name] for run in (*faulty, *healthy) if detector.name in run.worst}
    ordered = sorted({*values, detector.threshold}, reverse=not detector.below)
    places = sorted({round(i * (len(ordered) - 1) / (POINTS - 1)) for i in range(POINTS)})
    kept = sorted({*(ordered[place] for place in places), detector.threshold}, reverse=not detector.below)
    return [counts(detector, runs, threshold) for threshold in kept]


def summary(runs: Sequence[Measured]) -> dict[str, Any]:
    """All detectors together, and each by itself."""
    faulty, healthy = [run for run in runs if run.fault], [run for run in runs if not run.fault]
    return {
        "found": sum(map(is_found, faulty)),
        "faulty": len(faulty),
        "alarms": sum(bool(alarms(run)) for run in healthy),
        "healthy": len(healthy),
        "detectors": {detector.name: counts(detector, runs) for detector in DETECTORS},
    }


def missed(runs: Iterable[Measured]) -> list[Measured]:
    """Runs with a fault that no finding names."""
    return [run for run in runs if run.fault and not is_found(run)]


def _its_runs(detector: Detector, runs: Iterable[Measured]) -> tuple[list[Measured], list[Measured]]:
    runs = list(runs)
    faulty = [run for run in runs if run.fault and _is_for(detector, run)]
    return faulty, [run for run in runs if not run.fault and detector.name in run.worst]


def _is_for(detector: Detector, run: Measured) -> bool:
    """Whether a detector is for the fault of a run; one that stands in for another, if its column was observed."""
    first = SHOWS[run.fault][0]
    return first == detector.name or (first == detector.instead_of and detector.name in run.worst)
