"""Faults that are measured are the faults that they are called, and rates count what they say they count."""

from pathlib import Path

import pytest
import torch

from benchmarks.doctor.cells import STEPS, Base, Cell, run_cell
from benchmarks.doctor.design import EMBEDDED, FIXED, LONG, MEASURED
from benchmarks.doctor.faults import FAULTS
from benchmarks.doctor.runs import read
from objectives import parse
from rlzoo.doctor.detectors import DETECTORS, examine
from rlzoo.doctor.indicators import FEWEST_STEPS
from tests.thinned import thinned

BY_NAME = {fault.name: fault for fault in FAULTS}
BASES = {base.name: base for base in FIXED.bases}
GROSS_ON = {"stale rollouts": "rare route"}
"""Where a fault is not gross on "many right": a policy may solve that task from stale responses too."""


def test_each_detector_has_a_fault_that_it_is_for_and_each_fault_a_detector() -> None:
    names = {detector.name for detector in DETECTORS}
    assert len(FAULTS) >= 12 and len(BY_NAME) == len(FAULTS)
    assert all(set(fault.shows) <= names for fault in FAULTS)
    assert names - {it.name for it in DETECTORS if it.instead_of} == {fault.shows[0] for fault in FAULTS}


def test_rates_are_measured_on_other_tasks_recipes_and_seeds_than_thresholds() -> None:
    for other in (MEASURED, LONG, EMBEDDED):
        assert not {base.experiment for base in FIXED.bases} & {base.experiment for base in other.bases}
        seeds = [{cell.seed for cell in (*it.healthy(400), *it.faulty(400))} for it in (FIXED, other)]
        assert not seeds[0] & seeds[1] and all(len(it) == 800 for it in seeds)
    keys = [{parse(recipe).key for recipe in split.recipes} for split in (FIXED, MEASURED)]
    assert not keys[0] & keys[1]


def test_each_fault_is_tried_with_the_shipped_models() -> None:
    assert {run.fault for run in read(EMBEDDED.name)} == {*BY_NAME, ""}


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where starting policies lie."""
    return tmp_path_factory.mktemp("starts")


def found(fault: str, starts: Path, base: Base = BASES["many right"]) -> dict[str, str]:
    """Findings of a run with a fault, with their reasons; what could not be seen is `unseen`."""
    torch.set_num_threads(1)
    steps = FEWEST_STEPS if "idle_learning_rate" in BY_NAME[fault].shows else STEPS
    examination = examine(run_cell(Cell(base, "grpo-kl", 3, BY_NAME[fault], steps=steps), starts))
    return {it.name: it.reason for it in examination.findings} | dict.fromkeys(examination.unseen, "unseen")


@pytest.mark.slow
def test_faults_that_hide_each_other_are_found_as_they_are_mended(starts: Path) -> None:
    three = found("empty, epsilon, reversed", starts)
    assert "empty" in three["dead_groups"]
    assert three["vanishing_gradient"] == "unseen"
    two = found("epsilon, reversed", starts)
    assert "eps" in two["vanishing_gradient"] and "dead_groups" not in two
    one = found("reversed log-softmax", starts)
    assert "sampler_mismatch" in one and "vanishing_gradient" not in one


@pytest.mark.parametrize("fault", thinned([name for name in BY_NAME if "," not in name], fast=0, slow=4))
def test_a_gross_fault_is_named(fault: str, starts: Path) -> None:
    assert found(fault, starts, BASES[GROSS_ON.get(fault, "many right")]).keys() & set(BY_NAME[fault].shows)
