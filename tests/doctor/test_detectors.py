"""A detector finds its trouble where that begins, nothing in what is healthy, and says when it cannot say."""

import json
from dataclasses import replace

import numpy as np
import pytest

from objectives import FAILURE_MODES
from rlzoo.doctor.detectors import DETECTORS, RATES, examine, rates_of, shipped_rates
from rlzoo.doctor.indicators import COLUMNS, MOVING, Table, trend
from rlzoo.report.failure_modes import addressing
from tests.doctor.tables import STEPS, changed, healthy

SICK: dict[str, dict[str, float]] = {
    "entropy_collapse": {"entropy": 0.05},
    "entropy_explosion": {"entropy": 3.0},
    "sampler_mismatch": {"sampler_difference": 0.2},
    "sampler_divergence": {"sampler_kl": 0.2},
    "sampler_probabilities": {"sampler_probability_difference": 0.2},
    "length_runaway": {"length": 900.0, "accuracy": 0.2},
    "truncation": {"truncated": 0.8},
    "dead_groups": {"groups_without_signal": 1.0},
    "reward_saturation": {"groups_without_signal": 1.0, "accuracy": 1.0},
    "reward_falls": {"reward": -0.2},
    "skipped_updates": {"updates_skipped": 1.0},
    "vanishing_gradient": {"gradient_norm": 1e-6},
    "stale_rollouts": {"clipped": 0.3},
    "grader_fails": {"grading_lost": 0.2},
    "repetition": {"repetition": 0.7},
}
"""Detector -> what a run has from some step on."""
FIRST = 10
"""The row at which it begins."""


SAMPLER = ("sampler_difference", "sampler_kl", "sampler_probability_difference")
"""Columns for the same, the best first."""


def sick(name: str) -> Table:
    """A run that falls ill; what stands for a better column is all that there is of it."""
    table = changed(FIRST, **SICK[name])
    better = SAMPLER[: SAMPLER.index(column)] if (column := next(iter(SICK[name]))) in SAMPLER else ()
    return {column: values for column, values in table.items() if column not in better}


def idle(steps: int = 120) -> Table:
    """A run in which nothing moves but noise."""
    noise = np.random.default_rng(3).standard_normal((len(MOVING), steps))
    return {**healthy(steps), **{name: 1 + 0.01 * values for name, values in zip(MOVING, noise, strict=True)}}


def slow(seed: int, steps: int = 120) -> Table:
    """A healthy run that learns slowly: the reward from 0.3 to 0.42 in 120 steps, with as much noise."""
    rng = np.random.default_rng(seed)
    return {
        **healthy(steps),
        "reward": (0.3 + 0.12 * np.arange(120) / 119 + 0.03 * rng.standard_normal(120))[:steps],
        "entropy": (1 + 0.02 * rng.standard_normal(120))[:steps],
    }


def test_nothing_is_found_in_a_run_that_learns() -> None:
    examination = examine(healthy(120))
    assert not examination.findings and not examination.unseen
    assert examine(healthy()).unseen.keys() == {"idle_learning_rate"}


def learns_to_think(steps: int = 60) -> dict[str, np.ndarray]:
    """A run in which responses grow to three times their length because that pays; a tenth of the entropy is left."""
    rng, learnt = np.random.default_rng(0), np.clip(np.arange(steps) / (steps / 2) - 0.1, 0, 1)
    accuracy = 0.3 + 0.55 * learnt + 0.02 * rng.standard_normal(steps)
    entropy, length = 0.5 * (1 - 0.9 * learnt), 6 + 12 * np.sqrt(learnt)
    return {**healthy(steps), "reward": accuracy, "accuracy": accuracy, "entropy": entropy, "length": length}


def test_a_run_that_learns_to_think_is_healthy() -> None:
    assert not examine(learns_to_think()).findings


def test_shorter_responses_alone_are_no_collapse() -> None:
    accuracy = 0.3 + 0.02 * np.random.default_rng(0).standard_normal(STEPS)
    table = {**healthy(), "reward": accuracy, "accuracy": accuracy, "length": np.linspace(200, 20, STEPS)}
    assert not examine({**table, "entropy": np.full(STEPS, 0.5)}).findings


@pytest.mark.parametrize(
    ("trouble", "column", "value"), [("length_runaway", "length", 18.0), ("entropy_collapse", "entropy", 0.05)]
)
def test_what_pays_in_one_run_is_a_trouble_where_the_errors_stay(trouble: str, column: str, value: float) -> None:
    accuracy = 0.3 + 0.02 * np.random.default_rng(0).standard_normal(STEPS)
    table = {**healthy(), "reward": accuracy, "accuracy": accuracy, column: healthy()[column].copy()}
    table[column][FIRST:] = value * healthy()[column][0] / learns_to_think()[column][0]
    assert [finding.name for finding in examine(table).findings] == [trouble]


@pytest.mark.parametrize("name", SICK)
def test_a_trouble_is_found_once_it_has_lasted_and_is_named(name: str) -> None:
    findings = {finding.name: finding for finding in examine(sick(name)).findings}
    assert name in findings
    begins = FIRST + 1
    assert begins <= findings[name].step <= begins + 3
    assert not set(findings) - {name, "vanishing_gradient", "reward_falls", "dead_groups"}


@pytest.mark.parametrize("name", sorted(SICK.keys() - {"skipped_updates", "grader_fails"}))
def test_a_single_odd_step_is_no_finding(name: str) -> None:
    table = healthy()
    for column, value in SICK[name].items():
        table[column][FIRST] = value
    assert not examine(table).findings


def test_a_rate_that_does_nothing_is_found_by_its_lack_of_any_trend() -> None:
    (finding,) = examine(idle()).findings
    assert finding.name == "idle_learning_rate" and finding.step == 120
    assert "1e-06" in finding.reason


def test_a_slow_run_is_never_said_to_be_idle() -> None:
    for seed in range(60):
        assert not examine(slow(seed)).findings
        begun = examine(slow(seed, 20))
        assert not begun.findings and "fewer than 100 steps" in begun.unseen["idle_learning_rate"]


@pytest.mark.parametrize("level", [0.015, 0.0])
def test_a_policy_that_was_sure_from_the_start_has_not_collapsed(level: float) -> None:
    entropy = level * (1 + 0.03 * np.random.default_rng(0).standard_normal(STEPS))
    examination = examine({**healthy(), "entropy": entropy})
    assert not examination.findings and "from the start" in examination.unseen["entropy_collapse"]


@pytest.mark.parametrize("steps", [20, 300, 1000])
def test_a_reward_that_only_varies_does_not_fall_however_long_the_log(steps: int) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        chance = rng.choice([0.0, 0.25, 0.5, 0.75, 1.0], (steps, 8))
        right = rng.random((steps, 8, 8)) < chance[..., None]
        reward, deviation = right.mean((1, 2)), right.std((1, 2))
        table = {**healthy(steps), "reward": reward, "accuracy": reward, "reward_deviation": deviation}
        assert "reward_falls" not in {finding.name for finding in examine(table).findings}


@pytest.mark.parametrize("steps", [60, 1000])
def test_a_reward_that_falls_late_in_a_noisy_run_is_found(steps: int) -> None:
    rng = np.random.default_rng(0)
    reward = 0.6 + 0.12 * rng.standard_normal(steps)
    reward[steps // 2 :] -= 0.5
    examination = examine({**healthy(steps), "reward": reward})
    (falls,) = (finding for finding in examination.findings if finding.name == "reward_falls")
    assert steps / 2 < falls.step <= steps / 2 + 20


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_three_lucky_prompts_of_a_log_of_one_a_step_are_no_finding(right: float) -> None:
    table = {name: values for name, values in healthy().items() if name != "groups"}
    table["groups_without_signal"], table["accuracy"] = np.zeros(STEPS), np.full(STEPS, 0.5)
    table["reward"] = table["accuracy"]
    for name, value in {"groups_without_signal": 1.0, "accuracy": right}.items():
        table[name][6:9] = value
    assert not {finding.name for finding in examine(table).findings} & {"dead_groups", "reward_saturation"}
    for name, value in {"groups_without_signal": 1.0, "accuracy": right}.items():
        table[name][6:] = value
    (finding,) = (it for it in examine(table).findings if it.name in ("dead_groups", "reward_saturation"))
    assert finding.step == 26


def test_a_log_with_only_a_divergence_is_held_to_a_threshold_of_its_own() -> None:
    table = {name: values for name, values in healthy().items() if name != "sampler_difference"}
    table["sampler_kl"] = np.full(STEPS, 0.00125)  # a root mean square of 0.05, of which the mean may be a tenth
    examination = examine(table)
    assert not examination.findings and "sampler_mismatch" not in examination.unseen
    table["sampler_kl"] = np.full(STEPS, 0.1)
    (finding,) = examine(table).findings
    assert finding.name == "sampler_divergence"


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
    if name == "sampler_mismatch":
        table = {column: values for column, values in table.items() if column not in SAMPLER}
    examination = examine(table)
    assert name not in {finding.name for finding in examination.findings}
    if not detector.instead_of:  # type: ignore[attr-defined]
        assert all(column in examination.unseen[name] for column in needs)


def test_steps_without_a_number_are_never_a_finding() -> None:
    nothing = {name: np.full(STEPS, np.nan) for name in COLUMNS}
    examination = examine({**nothing, "step": np.arange(1.0, STEPS + 1)})
    assert not examination.findings
    assert examination.unseen.keys() == {it.name for it in DETECTORS if not it.instead_of}


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"length": 1.0, "accuracy": 0.0}, "empty"),
        ({"truncated": 1.0, "accuracy": 0.0}, "truncated"),
        ({"accuracy": 0.0}, "all wrong"),
        ({"accuracy": 0.4}, "all rewards of a group are equal, though 40% are right"),
        ({"accuracy": np.nan, "reward": -1.0}, "all rewards of a group are equal: -1 on average"),
    ],
)
def test_groups_without_a_signal_are_explained(columns: dict[str, float], says: str) -> None:
    findings = examine(changed(FIRST, groups_without_signal=1.0, loss=0.0, **columns)).findings
    (dead,) = (finding for finding in findings if finding.name == "dead_groups")
    assert says in dead.reason and "so the loss is 0" in dead.reason


def test_a_gradient_without_a_signal_is_not_said_to_have_vanished() -> None:
    table = {**healthy(120), "groups_without_signal": np.ones(120), "gradient_norm": np.zeros(120)}
    examination = examine(table)
    assert "dead_groups" in {finding.name for finding in examination.findings}
    assert {"vanishing_gradient", "idle_learning_rate"} <= examination.unseen.keys()


def test_a_clip_and_a_divisor_are_told_apart() -> None:
    (clip, tiny) = (
        next(it for it in examine(changed(0, gradient_norm=0.0, clipped=share)).findings if "gradient" in it.name)
        for share in (0.97, 0.0)
    )
    assert "clip takes 97%" in clip.reason and "eps" in tiny.reason


def test_trend_is_the_f_statistic_of_a_parabola() -> None:
    values = np.random.default_rng(0).standard_normal(20) + 0.1 * np.arange(20)
    x = np.arange(20.0)
    left = ((values - np.polyval(np.polyfit(x, values, 2), x)) ** 2).sum()
    whole = ((values - values.mean()) ** 2).sum()
    assert trend(values) == pytest.approx((whole - left) / 2 / (left / 17))
    assert trend(1e200 * values) == pytest.approx(trend(values))
    assert trend(np.ones(20)) == 0 and trend(x**2) > 1e6 and np.isnan(trend(values[:7]))


def test_every_trouble_is_one_that_is_known_and_has_something_to_type() -> None:
    for detector in DETECTORS:
        assert not detector.failure_mode or detector.failure_mode in FAILURE_MODES
        assert detector.setting or addressing(detector.failure_mode)
        assert set(detector.needs) <= COLUMNS.keys()


def test_the_rates_that_are_shipped_are_those_of_these_thresholds() -> None:
    rates = shipped_rates()
    assert {name: it.threshold for name, it in rates.items()} == {it.name: it.threshold for it in DETECTORS}
    assert all(it.found <= it.faulty and it.alarms <= it.healthy for it in rates.values())
    total = json.loads(RATES.read_text())
    assert total["faulty"] > 0 and total["healthy"] > 0


def test_rates_of_another_threshold_or_of_no_healthy_run_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,) = (it for it in examine(changed(0, truncated=0.9)).findings if it.name == "truncation")
    assert rates_of(finding)
    assert rates_of(replace(finding, threshold=0.4)) is None
    silent = {finding.name: replace(shipped_rates()[finding.name], healthy=0)}
    monkeypatch.setattr("rlzoo.doctor.detectors.shipped_rates", lambda: silent)
    assert rates_of(finding) is None


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_a_table_with_hardly_any_groups_is_examined() -> None:
    table = {**healthy(), "groups": np.full(STEPS, 1e-308), "groups_without_signal": np.full(STEPS, 0.5)}
    assert isinstance(examine(table), object)
