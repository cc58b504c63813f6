"""The table of claims has the effects and verdicts that the raw results give, and others can recompute it."""

import csv
import runpy
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from rlzoo.lab import claims
from rlzoo.lab.claims import (
    EDGE,
    FEWEST,
    Row,
    Verdict,
    claims_figure,
    control_of,
    decided,
    judged,
    same_runs,
    verdict_of,
)
from rlzoo.lab.suite.experiment import load_experiment
from tests.report.legible import assert_legible

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ROWS = list(csv.DictReader((BENCHMARKS / "claims.csv").open(encoding="utf-8")))
DECLARED = yaml.safe_load((BENCHMARKS / "claims" / "claims.yaml").read_text(encoding="utf-8"))
ASKED = [claim for claim in DECLARED if claim.get("raw") in ("confirm", "late")]


def test_a_script_without_this_package_recomputes_every_effect_from_raw_results() -> None:
    path = BENCHMARKS / "claims" / "recompute.py"
    source = path.read_text(encoding="utf-8")
    assert "rlzoo." not in source and "import rlzoo" not in source and "objectives" not in source
    assert len(source.splitlines()) <= 40
    runpy.run_path(str(path), run_name="__main__")


def test_the_page_has_what_the_script_makes_of_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = BENCHMARKS / "claims"
    page = (folder / "README.md").read_text(encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["coverage.py", str(folder / "results" / "coverage_answers.parquet")])
    table = runpy.run_path(str(folder / "coverage.py"), run_name="__main__")["table"]
    untrained = table[table["beside"] == "untrained"]
    for row in untrained.itertuples():
        name = row.row.replace("eta=1.0", "eta=1").replace("stapo(", "justrl+s2t(")
        outcome = "finds fewer" if row.p_holm < 0.05 else "open"
        effect = f"{100 * row.effect:.1f} [{100 * row.low:.1f}, {100 * row.high:.1f}]"
        assert f"| `{name}` | {100 * row._4:.1f} | {effect} | {row.p_holm:.2g} | {outcome}" in page
    beside = table[table["beside"] == "justrl"].set_index("row")
    for name in ("justrl+lopti(eta=1.0)", "justrl+lopti"):
        effect, low, high = 100 * beside.loc[name, ["effect", "low", "high"]]
        assert f"`{name.replace('1.0', '1')}` {effect:.1f} [{low:.1f}, {high:.1f}]" in page
    assert len(untrained) == 8 and len(table) == 15 and (table["p_holm"][table["beside"] == "justrl"] > 0.05).all()


def test_every_declared_claim_has_its_row_and_its_verdict_is_that_of_its_interval() -> None:
    assert [row["claim"] for row in ROWS] == [claim["claim"] for claim in DECLARED]
    for row in ROWS:
        if row["effect"] and row["verdict"] != Verdict.CANNOT.value:
            bounds = (float(row[name]) for name in ("low", "high", "smallest"))
            assert row["verdict"] == decided(row["asks"], *bounds, int(row["seeds"])).value
        assert row["left"] or row["verdict"] not in (Verdict.OPEN.value, Verdict.CANNOT.value)


def test_the_picture_of_all_claims_is_legible() -> None:
    assert_legible(claims_figure([Row(**row) for row in ROWS]))  # type: ignore[arg-type]


def test_what_lies_beyond_the_edge_of_the_picture_is_an_arrow_and_no_point() -> None:
    known = {"method": "grpo", "claim": "It grows.", "words": "", "paper": "", "verdict": Verdict.OPEN.value}
    rows = [Row(**known, asks=asks, smallest=2, low=2, effect=14, high=90) for asks in ("higher", "lower")]
    drawn = [line for line in claims_figure(rows).axes[0].lines if len(line.get_xdata()) == 1]  # type: ignore[arg-type]
    assert [(line.get_marker(), line.get_xdata()[0]) for line in drawn] == [("<", -EDGE), (">", EDGE)]  # type: ignore[index]


@pytest.mark.parametrize("claim", ASKED, ids=lambda claim: f"{claim['experiment']}: {claim['claim']}")
def test_a_claim_names_two_arms_and_a_smallest_difference_of_its_experiment(claim: dict[str, str]) -> None:
    experiment = load_experiment(claim["experiment"])
    assert {claim["arm"], claim["twin"]} <= experiment.arms.keys() and claim["arm"] != claim["twin"]
    assert claim["fixed"] in ("before", "after") and float(claim["smallest"]) > 0


@pytest.mark.parametrize(
    ("asks", "low", "high", "verdict"),
    [
        ("higher", 0.2, 0.4, Verdict.REPRODUCED),
        ("higher", 0.05, 0.4, Verdict.OPEN),
        ("higher", -0.05, 0.05, Verdict.NOT_REPRODUCED),
        ("higher", -0.4, -0.2, Verdict.CONTRADICTED),
        ("higher", -0.4, 0.05, Verdict.OPEN),
        ("not lower", -0.05, 0.4, Verdict.REPRODUCED),
        ("not lower", -0.4, 0.05, Verdict.OPEN),
        ("not lower", -0.4, -0.2, Verdict.CONTRADICTED),
        ("same", -0.05, 0.05, Verdict.REPRODUCED),
        ("same", 0.2, 0.4, Verdict.CONTRADICTED),
        ("same", 0.05, 0.4, Verdict.OPEN),
    ],
)
def test_a_verdict_is_where_the_interval_lies_and_turns_with_the_sign(
    asks: str, low: float, high: float, verdict: Verdict
) -> None:
    assert verdict_of(asks, low, high, 0.1) is verdict
    mirrored = {"higher": "lower", "not lower": "not higher", "same": "same"}[asks]
    assert verdict_of(mirrored, -high, -low, 0.1) is verdict


def test_nothing_is_decided_by_fewer_than_five_seeds() -> None:
    for asks in ("higher", "lower", "not higher", "not lower", "same"):
        assert decided(asks, -0.01, 0.01, 0.1, FEWEST - 1) is Verdict.OPEN
        assert decided(asks, -0.01, 0.01, 0.1, FEWEST) is not Verdict.OPEN
    assert all(int(row["seeds"]) >= FEWEST for row in ROWS if row["effect"] and row["verdict"] != Verdict.OPEN.value)


def test_arms_that_are_the_same_run_on_most_seeds_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = {**next(it for it in ASKED if it["asks"] == "higher"), "smallest": 0.1}

    def verdict(same: int, seeds: int = 10, **other: str) -> Verdict:
        arm = {seed: float(seed) for seed in range(seeds)}
        scores = {claim["arm"]: arm, claim["twin"]: {seed: at - 0.3 * (seed >= same) for seed, at in arm.items()}}
        monkeypatch.setattr(claims, "_of_cells", lambda *_: lambda arm: scores.get(arm, {}))
        monkeypatch.setattr(claims, "same_runs", lambda claim: same)
        return Verdict(judged({**claim, **other}, 0.05).verdict)

    assert [verdict(same) for same in (4, 5, 6, 10)] == [Verdict.OPEN, Verdict.OPEN, Verdict.CANNOT, Verdict.CANNOT]
    assert [verdict(6, asks="not lower"), verdict(10, asks="same")] == [Verdict.REPRODUCED, Verdict.CANNOT]
    assert verdict(3, seeds=4) is Verdict.OPEN


def test_a_row_cannot_be_asked_exactly_where_its_arms_are_the_same_run_on_most_seeds() -> None:
    for row in ROWS:
        if row["effect"] and row["raw"].endswith("jsonl"):
            raw = "late" if "late" in row["raw"] else "confirm"
            same = same_runs({"raw": raw, **{name: row[name] for name in ("experiment", "arm", "twin")}})
            seeds = int(row["seeds"])
            is_idle = same == seeds or (row["asks"] in ("higher", "lower") and 2 * same > seeds)
            assert is_idle == (row["verdict"] == Verdict.CANNOT.value)
            assert not is_idle or row["left"] == f"arm and twin are the same run on {same} of {seeds} seeds"


def test_a_row_says_whether_the_controls_of_its_experiment_hold() -> None:
    for row in ROWS:
        if row["effect"] and row["raw"].endswith("jsonl"):
            raw = "late" if "late" in row["raw"] else "confirm"
            assert row["control"] == control_of(raw, row["experiment"], row["score"], float(row["smallest"]))
    tight, wide = (control_of("confirm", "cut_responses", "accuracy", smallest) for smallest in (1e-6, 1.0))
    assert wide == "holds" != tight


def test_coverage_is_judged_by_what_sixteen_answers_find_below_the_untrained_model_and_beside_justrl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    solved = {"untrained": (50, 49, 50), "justrl": (40, 40, 41), "justrl+lopti": (50, 48, 50)}
    answers = [
        {"seed": seed, "method": name, "decoding": decoding, "problem": problem, "value": sample * (problem < found)}
        for name, counts in solved.items()
        for seed, count in enumerate(counts)
        for decoding, found in {"T=0.7, top-p=0.9": count, "T=1, top-p=1": 0}.items()
        for problem in range(50)
        for sample in (0.0, 1.0)
    ]
    pd.DataFrame(answers).to_parquet(tmp_path / "answers.parquet")
    monkeypatch.setattr(sys, "argv", ["coverage.py", str(tmp_path / "answers.parquet")])
    runpy.run_path(str(BENCHMARKS / "claims" / "coverage.py"))
    fewer, beside, kept = (line.split() for line in capsys.readouterr().out.splitlines()[1:])
    assert fewer[:5] == ["justrl", "untrained", "3", "0.8067", "-0.1867"] and float(fewer[-1]) == 0.0027
    assert beside[:2] == ["justrl+lopti", "justrl"] and 0.003 < float(beside[-1]) < 0.05
    assert kept[:2] == ["justrl+lopti", "untrained"] and float(kept[-1]) > 0.05
