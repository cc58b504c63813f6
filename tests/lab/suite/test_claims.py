"""Verdicts are what the numbers allow: false claims are rare, and an experiment whose controls fail decides nothing."""

from dataclasses import replace

import numpy as np
import pytest

from rlzoo.lab.suite.experiment import Experiment
from rlzoo.lab.suite.verdicts import (
    ClaimVerdict,
    ControlFailure,
    JudgedExperiment,
    Standing,
    against_base,
    judge,
)
from tests.lab.suite.settings import CLAIM, Draw, drawn, rare, shifted

RARE = rare()
TABLES = 200


def only(experiment: Experiment, draw: Draw, **options: object) -> JudgedExperiment:
    return judge([drawn(experiment, draw, **options)])[0]  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("tail", [1.0, pytest.param(3.0, marks=pytest.mark.slow)], ids=["normal", "heavy tails"])
def test_where_nothing_differs_five_tables_of_a_hundred_say_that_a_claim_holds_or_not(tail: float) -> None:
    """Of four experiments, most with controls that work; by sign: a claim may be called too small to count.

    With heavy tails a negative control is shown to be the same in half of the experiments.
    """
    draw, wrong, void = np.random.default_rng(5), 0, 0
    experiments = [rare(name=f"rare {number}", claims=[replace(CLAIM, smallest=0.0)]) for number in range(4)]
    for _ in range(TABLES):
        results = []
        for it in experiments:
            sample = shifted(draw, {"unclipped": 20.0})
            results.append(
                drawn(it, lambda label, seed, sample=sample: np.sign(v := sample(label, seed)) * abs(v) ** tail)
            )
        verdicts = [claim.verdict for it in judge(results) for claim in it.claims]
        void += verdicts.count(ClaimVerdict.VOID)
        wrong += ClaimVerdict.HOLDS in verdicts or ClaimVerdict.DOES_NOT_HOLD in verdicts
    assert wrong / TABLES <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / TABLES)
    assert void <= (0.01 if tail == 1 else 0.6) * 4 * TABLES


@pytest.mark.parametrize(
    ("shift", "higher", "smallest", "verdict"),
    [
        (5.0, True, 0.1, ClaimVerdict.HOLDS),
        (-5.0, False, 0.1, ClaimVerdict.HOLDS),
        (-5.0, True, 0.1, ClaimVerdict.DOES_NOT_HOLD),
        (0.0, True, 8.0, ClaimVerdict.DOES_NOT_HOLD),
        (0.0, True, 0.1, ClaimVerdict.CANNOT_TELL),
    ],
)
def test_a_verdict_is_what_interval_and_direction_say(
    shift: float, higher: bool, smallest: float, verdict: ClaimVerdict
) -> None:
    experiment = rare(claims=[replace(CLAIM, higher=higher, smallest=smallest)])
    found = only(experiment, shifted(np.random.default_rng(1), {"unclipped": 9.0, "clip_higher": shift}))
    claim = found.claims[0]
    assert found.controls.failed == [] and claim.verdict is verdict
    assert (claim.seeds_needed is not None) == (verdict is ClaimVerdict.CANNOT_TELL)
    assert claim.touched == {"clip_higher": pytest.approx(0.0125)}


@pytest.mark.parametrize(
    ("shifts", "trouble"),
    [
        ({"clip_higher": 9.0}, ControlFailure.POSITIVE),
        ({"clip_higher": 9.0, "unclipped": -9.0}, ControlFailure.POSITIVE),
        ({"clip_higher": 9.0, "unclipped": 9.0, "random rewards, clip_higher": 9.0}, ControlFailure.NEGATIVE),
    ],
)
def test_an_experiment_whose_control_fails_decides_nothing(shifts: dict[str, float], trouble: ControlFailure) -> None:
    found = only(RARE, shifted(np.random.default_rng(1), shifts))
    assert found.controls.failed == [trouble]
    assert [claim.verdict for claim in found.claims] == [ClaimVerdict.VOID]


def test_a_control_that_is_precise_and_small_passes_and_one_that_may_be_large_does_not() -> None:
    """It is shown to be the same, not merely not shown to differ."""
    noise = shifted(np.random.default_rng(1), {})
    shifts = {"unclipped": 9.0, "random rewards, clip_higher": 0.4}
    precise = only(rare(same_within=0.5), lambda label, seed: shifts.get(label, 0.0) + 0.01 * noise(label, seed))
    noisy = only(rare(same_within=0.5), shifted(np.random.default_rng(1), {"unclipped": 9.0}))
    assert precise.controls.failed == [] and noisy.controls.failed == [ControlFailure.NEGATIVE]
    assert abs(precise.controls.negative.corrected) < 0.05 < noisy.controls.negative.corrected


def test_base_that_differs_from_itself_makes_an_experiment_void() -> None:
    sample = shifted(np.random.default_rng(1), {"unclipped": 9.0, "clip_higher": 9.0})
    found = only(RARE, lambda label, seed: sample(label, seed) + 5.0 * (2000 <= seed < 2010))
    assert found.controls.failed == [ControlFailure.BASE] and found.claims[0].verdict is ClaimVerdict.VOID
    assert found.controls.base is not None and (found.controls.base.groups, found.controls.base.comparisons) == (4, 6)
    assert found.controls.base.told_apart == 3
    unknown = only(RARE, sample, base=False)
    assert unknown.controls.base is None and unknown.claims[0].verdict is ClaimVerdict.HOLDS


def test_fewer_seeds_than_a_claim_would_need_are_counted_from_the_spread() -> None:
    experiment = rare(claims=[replace(CLAIM, smallest=0.5)])
    low, high = only(experiment, shifted(np.random.default_rng(1), {"unclipped": 9.0})).claims[0].seeds_needed or (0, 0)
    assert 10 < low < high < 400


def test_the_same_run_on_every_seed_does_not_fire_and_decides_nothing() -> None:
    sample = shifted(np.random.default_rng(1), {"unclipped": 9.0})
    known = {(label, seed): sample(label, seed) for label in ("base", "unclipped") for seed in range(1100, 2040)
             if seed < 1110 or seed >= 2000}  # fmt: skip
    found = only(RARE, lambda label, seed: known["unclipped" if label == "unclipped" else "base", seed])
    assert found.claims[0].verdict is ClaimVerdict.DOES_NOT_FIRE
    standings = against_base([found.results])[0]
    assert standings["clip_higher"].standing is Standing.SAME_RUN
    assert standings["unclipped"].standing is Standing.HIGHER


def test_one_seed_tells_nothing() -> None:
    found = only(RARE, shifted(np.random.default_rng(1), {"unclipped": 9.0}), seeds=[1100])
    assert found.claims[0].compared.difference is None and found.claims[0].verdict is ClaimVerdict.VOID


def test_more_claims_ask_more_of_each() -> None:
    """All claims and controls of a table are one family; what is tested twice is tested once."""
    sample = shifted(np.random.default_rng(1), {"unclipped": 9.0, "clip_higher": 1.2})
    values = {(label, seed): sample(label, seed) for label in RARE.arms for seed in range(1100, 1110)}
    alone = only(RARE, lambda label, seed: values[label, seed], base=False).claims[0].compared
    twice = rare(claims=[CLAIM, replace(CLAIM, text="the same again")])
    again = only(twice, lambda label, seed: values[label, seed], base=False).claims[0].compared
    others = rare(
        claims=[CLAIM, replace(CLAIM, arm="random rewards"), replace(CLAIM, arm="random rewards, clip_higher")]
    )
    among = only(others, lambda label, seed: values[label, seed], base=False).claims[0].compared
    assert alone.difference is not None
    assert alone.corrected == again.corrected and alone.difference.p_value < alone.corrected < among.corrected
