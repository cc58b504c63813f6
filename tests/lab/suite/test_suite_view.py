"""The tables and the values of a suite say what was found, and whatever a user wrote is text."""

import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from rlzoo.lab.suite.figures import forest_figure, heat, heat_figure, pictured_claims
from rlzoo.lab.suite.suite import SuiteTable
from rlzoo.lab.suite.verdicts import ClaimVerdict
from rlzoo.lab.suite.view import (
    claim_records,
    claims_table,
    markdown,
    objectives_table,
    summary,
    verdict,
)
from tests.lab.suite.settings import drawn, rare, shifted, table
from tests.report.legible import assert_legible
from tests.report.test_page import HOSTILE


@pytest.fixture(scope="session")
def small_suite() -> SuiteTable:
    """Three experiments, of which one is void; three objectives in each."""
    draw, results = np.random.default_rng(1), []
    for number, shifts in enumerate(({"clip_higher": 9.0}, {"clip_higher": 0.1}, {"unclipped": 0.0})):
        claims = [replace(rare().claims[0], smallest=0.5)]
        experiment = rare(name=f"rare_{number}", higher_is_better=number != 1, claims=claims)
        sample = shifted(draw, {"unclipped": 9.0, "dapo as typed": 3.0, **shifts})
        results.append(drawn(experiment, sample, ["grpo", "dapo", "stapo"]))
    return table(results)


def hostile_suite(found: SuiteTable, text: str = HOSTILE) -> SuiteTable:
    """A suite whose first experiment is somebody's attempt."""
    judged = found.experiments[0]
    claim = replace(judged.claims[0].claim, arm=text, text=text, paper=text, published=text)
    arm = next(iter(judged.results.arms.values()))
    own = replace(arm.arm, objective=text)
    asked = {**judged.results.experiment.arms, text: own}
    experiment = replace(judged.results.experiment, question=text, unit=text, claims=[claim], arms=asked)
    arms = {**judged.results.arms, text: replace(arm, label=text, arm=own)}
    first = replace(
        judged,
        results=replace(judged.results, experiment=experiment, arms=arms),
        claims=[replace(judged.claims[0], claim=claim, touched={text: 0.1})],
    )
    contrasts = [{**found.contrasts[0], text: found.contrasts[0]["dapo"]}, *found.contrasts[1:]]
    return replace(found, experiments=[first, *found.experiments[1:]], contrasts=contrasts)


def test_the_picture_of_the_claims_leaves_out_what_is_void_and_shows_as_published_to_the_right(
    small_suite: SuiteTable,
) -> None:
    pictured = pictured_claims(small_suite)
    assert 0 < len(pictured) < len(small_suite.claims)
    figure = forest_figure(small_suite)
    assert_legible(figure)
    (axis,) = figure.axes
    labels = [label.get_text() for label in axis.get_yticklabels()][::-1]
    for (it, judged), label in zip(pictured, labels, strict=True):
        assert label.startswith(it.results.experiment.name.replace("_", " ")) and judged.compared.difference
    dots = {
        float(line.get_ydata()[0]): float(line.get_xdata()[0])
        for line in axis.lines
        if line.get_marker() == "o" and len(line.get_xdata())
    }
    for place, (_, judged) in zip(range(len(pictured))[::-1], pictured, strict=True):
        assert judged.compared.difference is not None
        sign = 1 if judged.claim.higher else -1
        assert np.sign(dots[place]) == sign * np.sign(judged.compared.difference.mean)


def test_hostile_text_is_text(small_suite: SuiteTable) -> None:
    found = hostile_suite(small_suite)
    outside_code = re.sub(r"(`+) ?.*?\1", "", markdown(found)).replace("<br>", "")
    assert "\\<img" in outside_code and not re.search(r"(?<!\\)<", outside_code)


def test_tables_fit_a_terminal_of_80_columns(small_suite: SuiteTable) -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(claims_table(small_suite))
    console.print(objectives_table(small_suite, ["dapo", "not asked for"]))
    shown = console.export_text()
    assert max(map(len, shown.splitlines())) <= 80
    assert "holds here" in shown and "void" in shown and shown.count("dapo") == 3 and "not asked for" not in shown


def test_values_and_words_say_the_same(small_suite: SuiteTable) -> None:
    """JSON without infinities; what was calculated, by name."""
    found = {judged.verdict: verdict(judged) for _, judged in small_suite.claims}
    assert found[ClaimVerdict.HOLDS] == "holds here" and found[ClaimVerdict.VOID] == "void"
    assert found[ClaimVerdict.CANNOT_TELL].startswith("cannot tell: would need about ")
    assert summary(small_suite) == "3 claims: 1 holds here, 1 cannot tell, 1 void; 2 of 3 experiments valid"
    claims = json.loads(json.dumps(claim_records(small_suite), allow_nan=False))
    assert [it["verdict"] for it in claims] == ["holds", "cannot tell", "void"]
    first, known = claims[0], small_suite.experiments[0].claims[0].compared.difference
    assert known is not None and first["effect"] == pytest.approx(known.mean, rel=1e-5)
    assert first["low"] < first["effect"] < first["high"] and first["p_corrected"] < 0.05 and first["seeds"] == 10
    assert claims[2]["void"] == ["positive"]


def test_the_heat_map_is_darkest_where_the_score_moved_most_and_knows_the_better_side(small_suite: SuiteTable) -> None:
    shown = heat(small_suite)
    assert list(shown)[:3] == ["grpo", "dapo", "stapo"] and list(shown["dapo"]) == ["rare_0", "rare_1", "rare_2"]
    of_dapo = shown["dapo"]
    assert of_dapo["rare_0"].better > 1 > -1 > of_dapo["rare_1"].better
    assert "grpo-kl+clip_higher" in shown and "grpo-kl" not in shown
    assert_legible(heat_figure(shown))
