"""What `rlzoo objectives --for` and `rlzoo doctor` say of measurements, made of the committed results.

python -m benchmarks.evidence
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).parent
EVIDENCE = BENCHMARKS.parent / "rlzoo" / "embedded" / "evidence"


def made() -> dict[str, dict[str, Any]]:
    """File -> what it holds, of the results that are there."""
    found = dict[str, dict[str, Any]]()
    for name, claims in {"suite.json": "suite/results/claims.json", "claims.json": "claims/claims.json"}.items():
        found[name] = json.loads((BENCHMARKS / claims).read_text(encoding="utf-8"))
    rates = json.loads((BENCHMARKS / "doctor" / "results" / "rates.json").read_text(encoding="utf-8"))
    found["doctor.json"] = doctor_evidence(rates["measured"], rates["long"])
    return found


def doctor_evidence(short: Mapping[str, Any], long: Mapping[str, Any]) -> dict[str, Any]:
    """The rates of the short runs with alarms of the long ones; those of the long ones where short ones say nothing."""
    detectors = {}
    for name, it in short["detectors"].items():
        source, other = (short, long["detectors"][name]) if it["healthy"] else (long, {})
        longer = {f"{key}_longer": other[key] for key in ("alarms", "healthy") if other}
        steps = {"steps_longer": long["steps"]} if longer else {}
        detectors[name] = {**source["detectors"][name], "steps": source["steps"], **longer, **steps}
    return {**{name: short[name] for name in ("found", "faulty", "alarms", "healthy")}, "detectors": detectors}


def text_of(record: Mapping[str, Any]) -> str:
    """As a file holds it: a line for each row, so that a change can be read."""
    text = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
    return text.replace("},", "},\n") + "\n"


if __name__ == "__main__":
    EVIDENCE.mkdir(parents=True, exist_ok=True)
    for name, record in made().items():
        (EVIDENCE / name).write_text(text_of(record), encoding="utf-8")
