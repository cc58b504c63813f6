"""How often each detector errs, as it was measured: `python -m benchmarks.evidence` makes the file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rlzoo.doctor.detectors import Detection

RATES = Path(__file__).parents[1] / "embedded" / "evidence" / "doctor.json"


@dataclass(frozen=True)
class Rates:
    """Counts of one detector, at the threshold that it has."""

    threshold: float
    found: int
    """Of the runs with a fault that it is for, in how many it showed."""
    faulty: int
    alarms: int
    """Of the healthy runs, in how many it showed."""
    healthy: int
    """In how many healthy runs it could say anything."""
    steps: int
    """Of these runs."""
    alarms_longer: int = 0
    """As `alarms`, in longer runs."""
    healthy_longer: int = 0
    """Of so many."""
    steps_longer: int = 0
    """Of each of these."""


@cache
def shipped_rates() -> Mapping[str, Rates]:
    """By the name of the detector."""
    detectors = json.loads(RATES.read_text(encoding="utf-8"))["detectors"]
    return {name: Rates(**measured) for name, measured in detectors.items()}


def rates_of(finding: Detection) -> Rates | None:
    """Those of its detector; None where they are of another threshold, or no healthy run let it say anything."""
    rates = shipped_rates().get(finding.name)
    return rates if rates and rates.threshold == finding.threshold and rates.healthy else None
