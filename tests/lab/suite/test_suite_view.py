"""The tables and the values of a suite say what was found, and whatever a user wrote is text."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from rlzoo.lab.suite.suite import SuiteTable
from rlzoo.lab.suite.verdicts import ClaimVerdict
from rlzoo.lab.suite.view import (
    claim_records,
    claims_table,
    markdown,
    objectives_table,
    standardised,
    standings_table,
    summary,
    verdict,
)
from tests.lab.suite.settings import drawn, rare, shifted, table


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


def test_objectives_stand_beside_base_in_every_experiment(small_suite: SuiteTable) -> None:
    table = standings_table(small_suite)
    assert [it.heading for it in table.columns] == ["objective", "rare_0", "rare_1 (lower is better)", "rare_2"]
    rows = {str(row[0].text): row[1:] for row in table.rows}  # type: ignore[union-attr]
    of_dapo = small_suite.contrasts[0]["dapo as typed"]
    assert rows["dapo"][0] == standardised(of_dapo) and str(rows["dapo"][0]).endswith("\u25b2")
    assert "grpo-kl+clip_higher" in rows and "grpo-kl" not in rows and "## Objectives" in markdown(small_suite)
