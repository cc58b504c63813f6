"""What is shipped of measurements is what the committed results say, and is read as it is written."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks.evidence import BOARDS, doctor_evidence, made, text_of
from objectives import parse
from rlzoo.choosing import evidence as reading
from rlzoo.choosing.choose import beginning, choose
from rlzoo.choosing.evidence import EVIDENCE, Evidence, shipped
from rlzoo.choosing.remedies import BASE, contrasts_of
from rlzoo.report.choice import board_words, print_choice
from rlzoo.report.formatting import verdict_words
from rlzoo.statistics.verdicts import Finding, Verdict

RESULTS = Path(__file__).parents[2] / "benchmarks"
CLAIM = {
    "experiment": "rare_but_right",
    "trouble": "exploration",
    "claim": "It grows.",
    "paper": "arXiv:2503.14476",
    "arm": "clip_higher",
    "against": "base",
    "score": "rare",
    "effect": 0.028,
    "low": 0.02,
    "high": 0.036,
    "p_corrected": 0.0003,
    "verdict": "holds",
    "seeds": 10,
    "objective": "grpo-kl+clip_higher",
    "objective_against": "grpo-kl",
}
"""A claim as the suite writes it."""


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that evidence is read from instead of the package's."""
    monkeypatch.setattr(reading, "EVIDENCE", tmp_path)
    for cached in (shipped, contrasts_of):
        cached.cache_clear()
    yield tmp_path
    for cached in (shipped, contrasts_of):
        cached.cache_clear()


def test_the_package_ships_what_the_committed_results_say() -> None:
    files = made()
    assert {"map.json", "boards.json"} <= files.keys()
    assert {path.name for path in EVIDENCE.glob("*.json")} == files.keys()
    for name, record in files.items():
        assert (EVIDENCE / name).read_text(encoding="utf-8") == text_of(record), "python -m benchmarks.evidence"


def test_rates_of_a_detector_that_says_nothing_of_short_runs_are_of_long_ones() -> None:
    def measured(steps: int, **healthy: int) -> dict[str, Any]:
        totals = dict.fromkeys(("found", "faulty", "alarms", "healthy"), steps)
        return {
            "steps": steps,
            **totals,
            "detectors": {name: {"alarms": it - 1, "healthy": it} for name, it in healthy.items()},
        }

    found = doctor_evidence(measured(20, repetition=300, idle=0), measured(100, repetition=30, idle=28))
    longer = {"alarms_longer": 29, "healthy_longer": 30, "steps_longer": 100}
    assert found["detectors"] == {
        "repetition": {"alarms": 299, "healthy": 300, "steps": 20, **longer},
        "idle": {"alarms": 27, "healthy": 28, "steps": 100},
    }
    assert found["healthy"] == 20


def test_every_row_of_the_map_is_read_with_its_own_numbers() -> None:
    with (RESULTS / "map" / "results" / "map.csv").open(encoding="utf-8", newline="") as file:
        records = list(csv.DictReader(file))
    found = shipped()
    assert len(records) == len(found.rows)
    for record, row in zip(records, found.rows, strict=True):
        assert (row.regime, row.expression) == (record["regime"], record["objective"])
        assert row.cosine == pytest.approx(float(record["cosine"]), rel=1e-3)
        assert row.interval == pytest.approx((float(record["cosine_low"]), float(record["cosine_high"])), rel=1e-3)
        assert {*row.same} == {*record["same_as"].split()} and list(row.idle) == record["idle"].split()
        for name, shift in row.shifts.items():
            assert shift.value == pytest.approx(float(record[f"{name}_exact"]), rel=1e-3)
            assert (shift.sign, shift.beside) == (int(record[f"{name}_sign"]), int(record[f"{name}_sign_beside"]))
            along = float(record[name]) - float(record[f"{name}_beside"])
            assert found.policy_gradient[row.regime][name] == pytest.approx(along, rel=1e-3, abs=1e-5)


def test_every_row_of_a_board_is_shown_with_the_verdict_of_its_table() -> None:
    records = []
    for folder in BOARDS.values():
        with (RESULTS / folder / "results" / "leaderboard.csv").open(encoding="utf-8", newline="") as file:
            records += list(csv.DictReader(file))
    rows = shipped().boards
    assert [verdict_words(row.verdict) for row in rows] == [record["verdict"] for record in records]
    for row, record in zip(rows, records, strict=True):
        ends = f", {record['verdict']}; {len(record['seeds'].split())} seeds"
        assert row.low is None or board_words(row).endswith(ends)


def test_what_is_worse_and_unstable_is_no_place_to_begin() -> None:
    row = next(row for row in shipped().boards if row.objective == "justrl")
    bad = replace(row, verdict=Verdict(Finding.WORSE, is_unstable=True))
    other, plain = (
        replace(row, objective=name, verdict=Verdict(finding))
        for name, finding in (("stapo", Finding.BETTER), ("grpo-kl", Finding.BASELINE))
    )
    found = beginning(Evidence(rows=[], policy_gradient={}, claims=[], boards=[bad, plain, other]))
    assert found.worse == ("justrl",) and found.expression == "stapo", "neither what is worse nor a mere baseline"


def test_an_objective_is_found_however_it_is_written() -> None:
    found = shipped()
    assert found.row("stale", parse("justrl+s2t")) == found.row("stale", parse("stapo"))
    assert found.row("stale", parse("stapo(q=0.5)")) is None


def test_without_evidence_an_answer_says_that_nothing_was_measured(elsewhere: Path) -> None:
    found = choose("entropy collapses")
    assert found.remedies and all(not (it.map or it.claims or it.boards) for it in found.remedies)
    assert found.beginning.expression == BASE


@pytest.mark.parametrize(("verdict", "place"), [("holds", 0), ("does not hold", -1)])
def test_what_the_suite_found_stands_at_the_parts_that_it_is_about_and_orders_them(
    verdict: str, place: int, elsewhere: Path
) -> None:
    claims = [{**CLAIM, "verdict": verdict}, {**CLAIM, "experiment": "other", "objective": "grpo-kl+token_mean"}]
    (elsewhere / "suite.json").write_text(json.dumps({"claims": claims}))
    found = choose("rare right answers do not grow")
    assert found.remedies[place].name == "clip_higher"
    assert [it.experiment for remedy in found.remedies for it in remedy.claims] == ["rare_but_right"]
    assert [it.experiment for it in found.claims] == ["other"]
    console = Console(width=80, file=io.StringIO())
    print_choice(found, len(found.remedies), console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, shown.splitlines())) <= 80
    said = f"It grows. Here: {verdict}; rare +0.028 [0.02, 0.036], corrected p 0.0003, 10 seeds"
    assert " ".join(shown.split()).count(said) == 2 - (verdict != "holds")
