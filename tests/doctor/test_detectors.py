"""A detector finds its trouble where that begins, nothing in what is healthy, and says when it cannot say."""

import json

import numpy as np
import pytest

from objectives import TROUBLES
from rlzoo.choosing.choose import addressing
from rlzoo.doctor.columns import COLUMNS, Table, held, trend
from rlzoo.doctor.detectors import DETECTORS, examine
from rlzoo.doctor.rates import RATES, shipped_rates
from rlzoo.doctor.signals import MOVING
from tests.doctor.tables import STEPS, changed, healthy, named

SICK: dict[str, dict[str, float]] = {
    "entropy_collapse": {"entropy": 0.05},
    "entropy_explosion": {"entropy": 3.0},
    "sampler_mismatch": {"sampler_difference": 0.2},
    "length_runaway": {"length": 900.0},
    "truncation": {"truncated": 0.8},
    "dead_groups": {"groups_without_signal": 1.0},
    "reward_saturation": {"groups_without_signal": 1.0, "accuracy": 1.0},
    "reward_falls": {"reward": -0.2},
    "skipped_updates": {"updates_skipped": 1.0},
    "silenced_gradient": {"gradient_norm": 1e-6},
    "stale_rollouts": {"clipped": 0.3},
    "grader_fails": {"grading_lost": 0.2},
    "repetition": {"repetition": 0.7},
}
"""Detector -> what a run has from some step on."""
FIRST = 10
"""The row at which it begins."""


def idle() -> Table:
    """A run in which nothing moves but noise."""
    noise = np.random.default_rng(3).standard_normal((len(MOVING), STEPS))
    return {**healthy(), **{name: 1 + 0.01 * values for name, values in zip(MOVING, noise, strict=True)}}


def test_nothing_is_found_in_a_run_that_learns() -> None:
    examination = examine(healthy())
    assert not examination.findings and not examination.unseen


@pytest.mark.parametrize("name", SICK)
def test_a_trouble_is_found_once_it_has_lasted_and_is_named(name: str) -> None:
    findings = {finding.name: finding for finding in examine(changed(FIRST, **SICK[name])).findings}
    assert name in findings
    begins = FIRST + 1
    assert begins <= findings[name].step <= begins + 2
    assert not set(findings) - {name, "silenced_gradient", "reward_falls", "dead_groups"}


@pytest.mark.parametrize("name", sorted(SICK.keys() - {"skipped_updates", "grader_fails"}))
def test_a_single_odd_step_is_no_finding(name: str) -> None:
    table = healthy()
    for column, value in SICK[name].items():
        table[column][FIRST] = value
    assert not examine(table).findings


def test_a_rate_that_does_nothing_is_found_by_its_lack_of_any_trend() -> None:
    (finding,) = examine(idle()).findings
    assert finding.name == "idle_learning_rate" and finding.step == STEPS
    assert "1e-06" in finding.reason


@pytest.mark.parametrize(
    "detector", [it for it in DETECTORS if it.name != "idle_learning_rate"], ids=lambda it: it.name
)
def test_what_was_found_stays_found_as_a_run_goes_on(detector: object) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        table = {name: values * rng.uniform(0.1, 3, STEPS) for name, values in healthy().items()}
        whole = detector.values(table)  # type: ignore[attr-defined]
        for steps in (6, 17):
            part = detector.values({name: values[:steps] for name, values in table.items()})  # type: ignore[attr-defined]
            np.testing.assert_array_equal(part, whole[:steps])


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda it: it.name)
def test_a_detector_without_its_columns_says_so_and_finds_nothing(detector: object) -> None:
    name, needs = detector.name, detector.needs  # type: ignore[attr-defined]
    table = {column: values for column, values in changed(0, **SICK.get(name, {})).items() if column not in needs}
    examination = examine(table)
    assert name not in {finding.name for finding in examination.findings}
    assert all(column in examination.unseen[name] for column in needs)


def test_steps_without_a_number_are_never_a_finding() -> None:
    nothing = {name: np.full(STEPS, np.nan) for name in COLUMNS}
    examination = examine({**nothing, "step": np.arange(1.0, STEPS + 1)})
    assert not examination.findings and len(examination.unseen) == len(DETECTORS)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"length": 1.0, "accuracy": 0.0}, "empty"),
        ({"truncated": 1.0, "accuracy": 0.0}, "truncated"),
        ({"accuracy": 0.0}, "all wrong"),
        ({"accuracy": 0.4}, "all rewards of a group are equal"),
    ],
)
def test_groups_without_a_signal_are_explained(columns: dict[str, float], says: str) -> None:
    findings = examine(changed(FIRST, groups_without_signal=1.0, loss=0.0, **columns)).findings
    (dead,) = (finding for finding in findings if finding.name == "dead_groups")
    assert says in dead.reason and "so the loss is 0" in dead.reason


def test_a_gradient_without_a_signal_is_not_said_to_be_silenced() -> None:
    table = changed(0, groups_without_signal=1.0, gradient_norm=0.0)
    examination = examine(table)
    assert "dead_groups" in {finding.name for finding in examination.findings}
    assert {"silenced_gradient", "idle_learning_rate"} <= examination.unseen.keys()


def test_a_clip_and_a_divisor_are_told_apart() -> None:
    (clip, tiny) = (
        next(it for it in examine(changed(0, gradient_norm=0.0, clipped=share)).findings if "gradient" in it.name)
        for share in (0.97, 0.0)
    )
    assert "clip takes 97%" in clip.reason and "eps" in tiny.reason


def test_held_is_the_level_kept_for_so_many_steps() -> None:
    values = np.array([1.0, 5.0, 4.0, 6.0, np.nan, 7.0])
    np.testing.assert_array_equal(held(values, 2), [np.nan, 1, 4, 4, np.nan, np.nan])
    np.testing.assert_array_equal(held(values, 2, below=True), [np.nan, 5, 5, 6, np.nan, np.nan])


def test_trend_is_the_f_statistic_of_a_parabola() -> None:
    values = np.random.default_rng(0).standard_normal(20) + 0.1 * np.arange(20)
    x = np.arange(20.0)
    left = ((values - np.polyval(np.polyfit(x, values, 2), x)) ** 2).sum()
    whole = ((values - values.mean()) ** 2).sum()
    assert trend(values) == pytest.approx((whole - left) / 2 / (left / 17))
    assert trend(1e200 * values) == pytest.approx(trend(values))
    assert trend(np.ones(20)) == 0 and trend(x**2) > 1e6 and np.isnan(trend(values[:7]))


def test_noise_has_a_trend_beyond_the_threshold_in_one_run_of_seven_at_most() -> None:
    rng, limit = np.random.default_rng(1), named("idle_learning_rate").threshold
    largest = [max(trend(rng.standard_normal(20)) for _ in range(2)) for _ in range(300)]
    assert 0.02 < np.mean(np.array(largest) > limit) < 0.15


def test_every_trouble_is_one_that_is_known_and_has_something_to_type() -> None:
    for detector in DETECTORS:
        assert not detector.trouble or detector.trouble in TROUBLES
        assert detector.setting or addressing(detector.trouble)
        assert set(detector.needs) <= COLUMNS.keys()


def test_the_rates_that_are_shipped_are_those_of_these_thresholds() -> None:
    rates = shipped_rates()
    assert {name: it.threshold for name, it in rates.items()} == {it.name: it.threshold for it in DETECTORS}
    assert all(it.found <= it.faulty and it.alarms <= it.healthy for it in rates.values())
    total = json.loads(RATES.read_text())
    assert total["faulty"] > 0 and total["healthy"] > 0
