"""Accuracy over compute: a sigmoid's parameters are found, intervals cover, what is not determined is refused."""

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlzoo.statistics.scaling import Curves, Refused, Sigmoid, SigmoidFit, accuracies_at, fit_rows, least_squares

SIMULATED = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "coverage" / "scaling.py"))
PLANTED = Sigmoid(start=0.42, asymptote=0.73, efficiency=1.7, midpoint=90_000.0)
SPENT = np.linspace(0, 400_000, 12)


def curves(truth: Sigmoid, spread: float = 0.01, seeds: int = 4, compute: np.ndarray = SPENT) -> Curves:
    """A line for each seed, each with its own A and C_mid, which are those of the truth in the mean."""
    places = np.linspace(-1, 1, seeds)
    each = [
        replace(truth, asymptote=truth.asymptote + spread * z, midpoint=truth.midpoint * np.exp(10 * spread * z))
        for z in places
    ]
    return Curves(np.tile(compute, (seeds, 1)), np.stack([seed.at(compute) for seed in each]))


def refused(row: Curves) -> str:
    """Why a row by itself is."""
    (fit,) = fit_rows([row])
    assert isinstance(fit, Refused)
    return fit.reason


@pytest.mark.parametrize("efficiency", [0.8, 1.7, 4.0])
@pytest.mark.parametrize("unit", [1.0, 1e-5, 1e4])
def test_the_planted_parameters_are_found_in_data_without_noise_whatever_the_unit(
    efficiency: float, unit: float
) -> None:
    truth = replace(PLANTED, efficiency=efficiency, midpoint=unit * PLANTED.midpoint)
    found = least_squares(curves(truth, spread=0.0, compute=unit * SPENT))
    for name, value in vars(truth).items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-4), name


def test_a_sigmoid_is_what_scalerl_writes() -> None:
    spent = SPENT[1:]
    by_hand = 0.42 + (0.73 - 0.42) / (1 + (90_000.0 / spent) ** 1.7)
    assert PLANTED.at(spent) == pytest.approx(by_hand, rel=1e-12)
    assert PLANTED.at(np.zeros(1)) == [0.42] and PLANTED.at(np.array([90_000.0])) == pytest.approx([0.575])


def test_each_seed_counts_with_what_it_alone_says() -> None:
    """The interval is Student's of the seeds' own fits, as far as these are near to the common one."""
    row = curves(PLANTED, spread=0.002)
    (fit,) = fit_rows([row])
    alone = [least_squares(Curves(row.compute[[seed]], row.accuracy[[seed]])) for seed in range(4)]
    assert isinstance(fit, SigmoidFit)
    for estimate, own in (
        (fit.asymptote, np.array([it.asymptote for it in alone])),
        (fit.midpoint, np.array([it.midpoint for it in alone])),
    ):
        reach = 3.182446 * own.std(ddof=1) / 2
        assert estimate.mean == pytest.approx(own.mean(), rel=1e-3)
        assert estimate.half_width == pytest.approx(reach, rel=0.03)


def test_a_row_among_others_of_equal_spread_is_known_better_than_alone() -> None:
    generator = np.random.default_rng(0)
    page = SIMULATED["simulate"](generator, SIMULATED["Scenario"](), [Sigmoid(0.42, 0.73, 1.7, 0.22)] * 8, 3)
    (alone,), together = fit_rows(page[:1]), fit_rows(page)
    assert isinstance(alone, SigmoidFit) and isinstance(together[0], SigmoidFit)
    assert together[0].curve == alone.curve
    assert together[0].asymptote.half_width < 0.75 * alone.asymptote.half_width


def test_what_does_not_determine_a_sigmoid_is_refused_and_says_why() -> None:
    generator = np.random.default_rng(1)
    flat = Curves(np.tile(SPENT, (4, 1)), 0.42 + 0.007 * generator.normal(size=(4, 12)))
    hill = curves(PLANTED)
    hill = replace(hill, accuracy=hill.accuracy - 0.2 * np.clip(SPENT / 200_000 - 1, 0, 1))
    assert refused(curves(PLANTED, seeds=2)) == "2 seeds; a fit needs 3"
    assert refused(curves(PLANTED, compute=SPENT[:5])).startswith("5 points of each seed")
    assert refused(flat) == "no rise beyond what seeds differ by"
    assert refused(hill).startswith("it follows no sigmoid")
    assert "% of the curve's rise" in refused(curves(replace(PLANTED, midpoint=500_000.0)))
    assert refused(curves(replace(PLANTED, midpoint=5_000.0))) != ""
    assert refused(curves(PLANTED, spread=0.15)) != ""


def test_a_row_that_is_refused_takes_no_fit_from_the_others() -> None:
    short = curves(PLANTED, compute=SPENT[:5])
    fits = fit_rows([curves(PLANTED), short, curves(PLANTED)])
    assert [type(fit) for fit in fits] == [SigmoidFit, Refused, SigmoidFit]


def test_a_seed_far_from_the_others_widens_the_interval() -> None:
    row = curves(PLANTED, spread=0.002)
    (calm,), apart = fit_rows([row]), row.accuracy.copy()
    apart[0] += 0.03 * (SPENT > 0)
    (wide,) = fit_rows([replace(row, accuracy=apart)])
    assert isinstance(calm, SigmoidFit) and isinstance(wide, SigmoidFit)
    assert wide.asymptote.half_width > 3 * calm.asymptote.half_width


def test_accuracy_at_a_compute_lies_on_the_line_between_two_evaluations() -> None:
    row = curves(PLANTED)
    between = (SPENT[5] + SPENT[6]) / 2
    (estimate,) = accuracies_at([row], between)
    assert estimate is not None and estimate.low < estimate.mean < estimate.high
    assert estimate.mean == pytest.approx(row.accuracy[:, 5:7].mean())
    assert accuracies_at([Curves(row.compute[:1], row.accuracy[:1])], between) == [None]


@pytest.mark.parametrize("seeds", [3, 10])
def test_intervals_cover_and_few_determined_rows_are_refused(seeds: int) -> None:
    """12 pages; benchmarks/coverage has more."""
    found = SIMULATED["outcomes"](SIMULATED["Scenario"](), seeds, 12)
    fits = found[~np.isnan(found[:, 0])]
    assert len(fits) >= 0.9 * len(found)
    assert np.all(fits[:, :2].mean(axis=0) >= 0.90)


@pytest.mark.parametrize("name", ["flat", "ends before its midpoint", "at once"])
def test_rows_that_determine_nothing_are_refused_on_nearly_every_page(name: str) -> None:
    found = SIMULATED["outcomes"](SIMULATED["UNDETERMINED"][name], 5, 4)
    assert np.isnan(found[:, 0]).mean() >= 0.95
