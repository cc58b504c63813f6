"""Measurements that the package ships are those of the committed results, and are shown as they are."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rlzoo
from benchmarks.evidence import made, text_of
from objectives import FAILURE_MODES, ObjectiveError, Weight, names, parse, register
from rlzoo.commands import main
from rlzoo.report import failure_modes
from rlzoo.report.failure_modes import EVIDENCE, addressing, all_claims, claims_about, remedies_table
from tests.conftest import error_of

ROOT = Path(__file__).parents[2]
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
    for cached in (all_claims, claims_about):
        cached.cache_clear()
    yield tmp_path
    for cached in (all_claims, claims_about):
        cached.cache_clear()


def test_the_package_ships_what_the_committed_results_say() -> None:
    files = made()
    assert (
        {path.name for path in EVIDENCE.glob("*.json")} == files.keys() == {"claims.json", "suite.json", "doctor.json"}
    )
    for name, record in files.items():
        assert (EVIDENCE / name).read_text(encoding="utf-8") == text_of(record), "python -m benchmarks.evidence"


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


@pytest.mark.parametrize(("verdict", "place"), [("holds", 0), ("does not hold", -1), ("contradicted", -1)])
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


# ---- the site --------------------------------------------------------------------------------------------------------


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module that makes the pages on measurements; what it imports lies beside it."""
    monkeypatch.syspath_prepend(ROOT / "docs" / "build_site")
    yield __import__("evidence_pages")
    for name in ("evidence_pages", "links"):
        sys.modules.pop(name, None)


def test_the_page_of_failure_modes_has_each_with_its_parts(site: Any) -> None:
    page = site.which_objective_page()
    for failure_mode, meaning in FAILURE_MODES.items():
        assert f"`{failure_mode}`: {meaning}" in page
        assert remedies_table(failure_mode).markdown() in page or not addressing(failure_mode)
