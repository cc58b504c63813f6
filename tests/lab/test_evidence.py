"""Measurements that the package ships are those of the committed results, and are shown as they are."""

import csv
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rlzoo
from benchmarks.evidence import BOARDS, doctor_evidence, made, text_of
from objectives import FAILURE_MODES, ObjectiveError, Weight, names, parse, register
from rlzoo.commands import main
from rlzoo.lab.evidence import beginning, leaderboard_rows, map_rows, on_the_map
from rlzoo.report import failure_modes
from rlzoo.report.failure_modes import EVIDENCE, addressing, claims_about, remedies_table, suite_claims
from rlzoo.report.verdict_words import verdict_words
from rlzoo.statistics.verdicts import Finding, Verdict
from tests.conftest import error_of

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks"
CLAIM = {
    "experiment": "rare_but_right",
    "trouble": "exploration",
    "claim": "It grows.",
    "paper": "arXiv:2503.14476",
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
    """A folder that claims are read from instead of the package's."""
    monkeypatch.setattr(failure_modes, "EVIDENCE", tmp_path)
    for cached in (suite_claims, claims_about):
        cached.cache_clear()
    yield tmp_path
    for cached in (suite_claims, claims_about):
        cached.cache_clear()


def records(path: str) -> list[dict[str, str]]:
    with (RESULTS / path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_package_ships_what_the_committed_results_say() -> None:
    files = made()
    assert {path.name for path in EVIDENCE.glob("*.json")} == files.keys() > {"map.json", "boards.json", "suite.json"}
    for name, record in files.items():
        assert (EVIDENCE / name).read_text(encoding="utf-8") == text_of(record), "python -m benchmarks.evidence"


def test_rates_of_a_detector_that_says_nothing_of_short_runs_are_of_long_ones() -> None:
    def measured(steps: int, **healthy: int) -> dict[str, Any]:
        totals = dict.fromkeys(("found", "faulty", "alarms", "healthy"), steps)
        detectors = {name: {"alarms": it - 1, "healthy": it} for name, it in healthy.items()}
        return {"steps": steps, **totals, "detectors": detectors}

    found = doctor_evidence(measured(20, repetition=300, idle=0), measured(100, repetition=30, idle=28))
    longer = {"alarms_longer": 29, "healthy_longer": 30, "steps_longer": 100}
    assert found["detectors"] == {
        "repetition": {"alarms": 299, "healthy": 300, "steps": 20, **longer},
        "idle": {"alarms": 27, "healthy": 28, "steps": 100},
    }
    assert found["healthy"] == 20


def test_every_row_of_the_map_is_read_with_its_own_numbers() -> None:
    written = records("map/results/map.csv")
    for record, row in zip(written, map_rows(), strict=True):
        assert (row.regime, row.expression) == (record["regime"], record["objective"])
        assert row.cosine == pytest.approx(float(record["cosine"]), rel=1e-3)
        assert {*row.same} == {*record["same_as"].split()} and list(row.idle) == record["idle"].split()
        for name, shift in row.shifts.items():
            assert shift.value == pytest.approx(float(record[f"{name}_exact"]), rel=1e-3)
            assert (shift.sign, shift.beside) == (int(record[f"{name}_sign"]), int(record[f"{name}_sign_beside"]))


def test_every_row_of_a_leaderboard_has_the_verdict_of_its_table() -> None:
    written = [record for folder in BOARDS.values() for record in records(f"{folder}/results/leaderboard.csv")]
    for row, record in zip(leaderboard_rows(), written, strict=True):
        assert verdict_words(row.verdict) == record["verdict"]
        assert row.low is None or row.words.endswith(f", {record['verdict']}; {len(record['seeds'].split())} seeds")


def test_an_objective_is_found_on_the_map_however_it_is_written() -> None:
    assert on_the_map(parse("justrl+s2t")) == on_the_map(parse("stapo")) != []
    assert on_the_map(parse("stapo(q=0.5)")) == []


def test_what_is_worse_and_unstable_is_no_place_to_begin() -> None:
    row = next(row for row in leaderboard_rows() if row.objective == "justrl")
    bad = replace(row, verdict=Verdict(Finding.WORSE, is_unstable=True))
    plain = replace(row, objective="grpo-kl", verdict=Verdict(Finding.BASELINE))
    other = replace(row, objective="stapo", verdict=Verdict(Finding.BETTER))
    found = beginning([bad, plain, other])
    assert found.worse == ("justrl",) and found.expression == "stapo", "neither what is worse nor a mere baseline"
    assert beginning([]).expression == "grpo-kl"


@pytest.mark.parametrize("failure_mode", FAILURE_MODES)
def test_what_addresses_a_failure_mode_can_be_typed_and_has_the_part(
    failure_mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tagged = {
        it.name for it in names() if it.kind == "part" and failure_mode in it.failure_modes and ":" not in it.name
    }
    remedies = addressing(failure_mode)
    assert {remedy.name for remedy in remedies} == tagged
    assert all(remedy.name in {part.name for part in parse(remedy.expression).parts} for remedy in remedies)
    assert main(["objectives", "--for", failure_mode]) == 0
    shown = capsys.readouterr().out
    assert FAILURE_MODES[failure_mode] in shown and all(name in shown for name in tagged)
    assert max(map(len, shown.splitlines()[1:-2])) <= 80


@pytest.mark.parametrize(("verdict", "place"), [("holds", 0), ("does not hold", -1)])
def test_what_the_suite_found_stands_at_the_part_that_it_is_about_and_orders_the_parts(
    verdict: str, place: int, elsewhere: Path
) -> None:
    claims = [{**CLAIM, "verdict": verdict}, {**CLAIM, "experiment": "other", "objective": "grpo-kl+token_mean"}]
    (elsewhere / "suite.json").write_text(json.dumps({"claims": claims}))
    found = addressing("exploration")
    assert found[place].name == "clip_higher"
    assert [claim.experiment for remedy in found for claim in remedy.claims] == ["rare_but_right"]
    text = remedies_table("exploration").markdown()
    assert text.count(f"rare\\_but\\_right: {verdict}, rare +0.028 [0.02, 0.036], 10 seeds") == 1


def test_without_evidence_nothing_is_said_to_be_measured(elsewhere: Path) -> None:
    assert all(not remedy.claims and remedy.rank == 0 for remedy in addressing("entropy_collapse"))
    assert "holds" not in remedies_table("entropy_collapse").markdown()


def test_an_unknown_failure_mode_is_refused_with_the_nearest_and_all_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    message = error_of(capsys, "objectives", "--for", "entropy_colapse")
    assert "did you mean entropy_collapse" in message and all(name in message for name in FAILURE_MODES)
    assert main(["objectives", "--for"]) == 0
    shown = capsys.readouterr().out
    assert all(f"{name} " in shown for name in FAILURE_MODES)

    class Wrong(Weight):
        """Weighs."""

        name = "wrong"
        troubles = ("entropy_colapse",)

    with pytest.raises(ObjectiveError, match="no failure mode is called 'entropy_colapse'; did you mean entropy_coll"):
        register(Wrong)


def test_choose_answers_with_the_command_that_replaced_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert "rlzoo objectives --for" in error_of(capsys, "choose", "my", "entropy", "collapses")
    with pytest.raises(AttributeError, match="rlzoo objectives --for"):
        rlzoo.choose  # noqa: B018


def test_the_page_of_failure_modes_has_each_with_its_parts_and_where_to_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs" / "build_site")
    page = __import__("evidence_pages").which_objective_page()
    sys.modules.pop("evidence_pages")
    assert "Start with objective=justrl" in page and beginning().words in page
    for failure_mode, meaning in FAILURE_MODES.items():
        assert f"`{failure_mode}`: {meaning}" in page
        assert remedies_table(failure_mode).markdown() in page or not addressing(failure_mode)
