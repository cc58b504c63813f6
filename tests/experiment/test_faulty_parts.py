"""Fifty faulty parts and twenty sound ones, written by somebody who had not seen the check."""

import json
import sys

import pytest

from tests.experiment.faults import FAULTS, QUIET_FAULTS
from tests.processes import launch

NOT_FOUND = {"entropy_width"}


@pytest.fixture(scope="module")
def verdicts() -> dict[str, dict[str, str]]:
    """`faulty`, `quietly` and `sound`: part -> what the trial says of it."""
    return dict(json.loads(launch([sys.executable, "-m", "tests.experiment.tried_parts"]).splitlines()[-1]))


@pytest.mark.exhaustive
def test_nearly_all_faulty_parts_are_found_and_named(verdicts: dict[str, dict[str, str]]) -> None:
    named = {name for name, text in verdicts["faulty"].items() if f"the part {name} fails" in text}
    assert len(FAULTS) == 50 and verdicts["faulty"].keys() == FAULTS.keys()
    assert FAULTS.keys() - named == NOT_FOUND


@pytest.mark.exhaustive
def test_a_fault_that_shows_on_unusual_batches_alone_is_found(verdicts: dict[str, dict[str, str]]) -> None:
    assert verdicts["quietly"].keys() == QUIET_FAULTS.keys()
    assert [name for name, text in verdicts["quietly"].items() if f"the part {name} fails" not in text] == []


@pytest.mark.exhaustive
def test_no_sound_part_is_accused(verdicts: dict[str, dict[str, str]]) -> None:
    assert len(verdicts["sound"]) == 20 and set(verdicts["sound"].values()) == {""}


@pytest.mark.exhaustive
def test_heeding_padding_is_not_taken_for_remembering(verdicts: dict[str, dict[str, str]]) -> None:
    padding = [name for name, fault in FAULTS.items() if fault.startswith("padding:") and name not in NOT_FOUND]
    assert {name for name in padding if "changes with the padding" not in verdicts["faulty"][name]} == set()
    assert "depends on the batches before" in verdicts["quietly"]["cached_threshold"]
