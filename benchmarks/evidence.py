"""What `rlzoo objectives --for`, `rlzoo doctor` and the site say of measurements, made of the committed results.

python -m benchmarks.evidence
"""

import csv
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rlzoo.report.verdict_words import verdict_from_words

BENCHMARKS = Path(__file__).parent
EVIDENCE = BENCHMARKS.parent / "rlzoo" / "embedded" / "evidence"
QUANTITIES = ("reward", "pass_8", "entropy", "length_right", "length_wrong", "distinct_right", "log_rare_right")
BOARDS = {
    "sums": "leaderboard",
    "knights": "leaderboard_knights",
    "calculator": "calculator",
    "smollm2": "leaderboard_smollm2",
}
"""Name -> folder."""


def map_evidence(records: Iterable[Mapping[str, str]]) -> dict[str, Any]:
    """Regime -> what a step along the policy gradient changes, which objectives are the same, and a row for each."""
    regimes: dict[str, dict[str, Any]] = {}
    for record in records:
        along = {name: _number(float(record[name]) - float(record[f"{name}_beside"])) for name in QUANTITIES}
        regime = regimes.setdefault(record["regime"], {"policy_gradient": along, "groups": [], "rows": {}})
        regime["rows"][record["objective"]] = {
            "cosine": [_number(record[f"cosine{end}"]) for end in ("", "_low", "_high")],
            "signal_to_noise": _number(record["signal_to_noise"]),
            "shifts": {name: _shift(record, name) for name in QUANTITIES},
            "rare": _number(record["mass_quarter_1"]),
            "idle": record["idle"].split(),
        }
        group = sorted([record["objective"], *record["same_as"].split()])
        if len(group) > 1 and group not in regime["groups"]:
            regime["groups"].append(group)
    return regimes


def board_evidence(boards: Mapping[str, Iterable[Mapping[str, str]]]) -> dict[str, Any]:
    """Of the rows of each leaderboard.csv on held-out problems."""
    rows = [
        {
            "board": name,
            "objective": record["objective"],
            "decoding": f"T={float(record['temperature']):g}, top-p={float(record['top_p']):g}",
            "accuracy": _number(record["accuracy"]),
            "difference": _number(record["difference"]) if record["difference"] else None,
            "low": _number(record["difference_low"]) if record["difference_low"] else None,
            "high": _number(record["difference_high"]) if record["difference_high"] else None,
            "seeds": len(record["seeds"].split()),
            "verdict": _verdict(record["verdict"]),
        }
        for name, records in boards.items()
        for record in records
        if record["problem_set"] == "held out" and not record["without"]
    ]
    return {"rows": rows}


def made() -> dict[str, dict[str, Any]]:
    """File -> what it holds, of the results that are there."""
    found = {
        "map.json": map_evidence(_rows("map/results/map.csv")),
        "boards.json": board_evidence({name: _rows(f"{at}/results/leaderboard.csv") for name, at in BOARDS.items()}),
    }
    claims = BENCHMARKS / "suite" / "results" / "claims.json"
    if claims.exists():
        found["suite.json"] = json.loads(claims.read_text(encoding="utf-8"))
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


def _shift(record: Mapping[str, str], name: str) -> list[float]:
    signs = [int(record[f"{name}_{sign}"]) for sign in ("sign", "sign_beside")]
    return [_number(record[f"{name}_exact"]), *signs]


def _verdict(words: str) -> dict[str, Any]:
    found = verdict_from_words(words)
    return {**asdict(found), "finding": found.finding.value}


def _number(text: str | float) -> float:
    return float(f"{float(text):.4g}")


def _rows(path: str) -> list[dict[str, str]]:
    with (BENCHMARKS / path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    EVIDENCE.mkdir(parents=True, exist_ok=True)
    for name, record in made().items():
        (EVIDENCE / name).write_text(text_of(record), encoding="utf-8")
