"""Statistics for anyone: a table of any trainer's results gives the whole page, and a bad table one line."""

import csv
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest

import rlzoo
from rlzoo.comparing.leaderboard import make_table_leaderboard
from rlzoo.comparing.result_table import as_result_table, read_result_table
from rlzoo.errors import UserError
from rlzoo.report.leaderboard import markdown
from rlzoo.report.leaderboard_sentences import MANY_ROWS, discoveries
from rlzoo.statistics.verdicts import Finding
from tests.conftest import error_of

OTHER_TRAINER = """
import csv, random, sys
random.seed(0)
with open(sys.argv[1], "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["value", "problem", "method", "sample", "seed", "response"])
    rows = []
    for method, rate in {"verl grpo": 0.4, "theirs, new": 0.75, "trl dapo": 0.4}.items():
        for seed in (1, 2, 5):
            for problem in range(40):
                hardness = (problem % 5 - 2) / 10
                for sample in range(4):
                    rows.append([int(random.random() < rate + hardness), f"p{problem}", method, sample, seed, "..."])
    random.shuffle(rows)
    writer.writerows(rows)
"""
HEADER = "method,seed,problem,sample,value\n"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written by a script that knows nothing of rlzoo, its columns and rows in any order."""
    path = tmp_path_factory.mktemp("results") / "results.csv"
    subprocess.run([sys.executable, "-I", "-c", OTHER_TRAINER, str(path)], check=True)
    return path


@pytest.mark.slow
def test_a_table_of_another_trainer_gives_page_picture_markdown_csv_and_verdicts(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    frame = rlzoo.leaderboard(table, baseline="verl grpo", output=str(out))
    assert "better than verl grpo: theirs, new (+" in capsys.readouterr().out
    assert (out / "leaderboard.png").read_bytes().startswith(b"\x89PNG")
    texts = [(out / f"leaderboard.{kind}").read_text() for kind in ("md", "html", "csv")]
    values = pandas.read_csv(table).groupby("method")["value"].mean()
    lines = {line["objective"]: line for line in csv.DictReader(io.StringIO(texts[2]))}
    for method, mean in values.items():
        assert all(f"{100 * mean:.1f}" in text for text in texts[:2])
        assert float(lines[str(method)]["accuracy"]) == pytest.approx(mean)
    assert lines["theirs, new"]["verdict"] == "better" and "maj" not in lines["theirs, new"]
    assert lines["verl grpo"]["seeds"] == "1 2 5" and "command" not in lines["verl grpo"]
    assert "theirs, new" in set(frame["objective"])  # type: ignore[call-overload]


def results_of(methods: int) -> pandas.DataFrame:
    """The first half a little better than the baseline `m0`, the others as good."""
    index = pandas.MultiIndex.from_product(
        [[f"m{i}" for i in range(methods)], range(3), range(60), range(8)],
        names=["method", "seed", "problem", "sample"],
    )
    frame = index.to_frame(index=False)
    number = frame["method"].str[1:].astype(int)
    rate = 0.5 + 0.06 * ((number > 0) & (number <= methods // 2))
    return frame.assign(value=(np.random.default_rng(0).random(len(frame)) < rate).astype(float))


def test_a_page_of_many_rows_lists_what_is_worth_a_look_and_says_that_some_of_it_is_false() -> None:
    many, few = (
        make_table_leaderboard(as_result_table(results_of(methods)), "m0") for methods in (MANY_ROWS, MANY_ROWS - 1)
    )
    (place,) = many.decodings
    listed = {str(row.name) for row in many.rows if row.results[place].average.is_listed}
    claimed = {str(row.name) for row in many.rows if row.results[place].average.verdict.is_claim}
    assert claimed < listed <= {f"m{i}" for i in range(1, MANY_ROWS // 2 + 1)}
    (line,) = discoveries(many)
    assert "one in 20 is expected to be false" in line and all(f"{name} (+" in line for name in listed)
    assert line in markdown(many) and "| false discovery rate |" in markdown(many)
    assert "expected to be false" not in markdown(few) and "false discovery" not in markdown(few)


@pytest.mark.slow
def test_a_frame_columns_rows_csv_and_parquet_of_the_same_results_are_the_same_board(
    table: Path, tmp_path: Path
) -> None:
    frame = pandas.read_csv(table)
    frame.to_parquet(tmp_path / "results.parquet")
    shuffled = frame.sample(frac=1, random_state=1)[sorted(frame.columns)]
    given = [frame, shuffled, frame.to_dict("list"), frame.to_dict("records")]
    tables = [read_result_table(table), read_result_table(tmp_path / "results.parquet"), *map(as_result_table, given)]
    boards = [make_table_leaderboard(own, "verl grpo") for own in tables]
    for board in boards:
        assert board.rows[0].results.keys() == boards[0].rows[0].results.keys()
        for row, other in zip(board.rows, boards[0].rows, strict=True):
            (result,), (expected,) = row.results.values(), other.results.values()
            assert result.average.by_seed == expected.average.by_seed
            assert result.average.verdict == expected.average.verdict
            assert result.average.estimate.mean == pytest.approx(expected.average.estimate.mean)


def test_sets_have_a_macro_average_and_decodings_a_place_of_their_own(table: Path) -> None:
    frame = pandas.read_csv(table)
    halves = [frame.assign(set=name, decoding="T=1") for name in ("aime", "math")]
    board = make_table_leaderboard(as_result_table(pandas.concat([*halves, halves[0].assign(decoding="greedy")])))
    assert [str(place) for place in board.decodings] == ["macro average, T=1", "aime, T=1", "math, T=1", "aime, greedy"]
    assert board.problems == 80


def test_the_baseline_of_a_table_is_grpo_or_else_its_first_method() -> None:
    columns = {"seed": [0, 0], "problem": ["p", "p"], "sample": [0, 0], "value": [1, 0]}
    assert str(make_table_leaderboard(as_result_table({**columns, "method": ["dapo", "grpo"]})).baseline.name) == "grpo"
    assert str(make_table_leaderboard(as_result_table({**columns, "method": ["b", "a"]})).baseline.name) == "b"
    with pytest.raises(UserError, match="baseline=c is no method of the table, which has b, a"):
        make_table_leaderboard(as_result_table({**columns, "method": ["b", "a"]}), "c")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "method,seed,problem,value\na,0,p,1\n",
            "has no column 'sample'; it has method, seed, problem, value, and needs",
        ),
        (HEADER, "has no rows"),
        (HEADER + "a,0,p,0,1\na,0,p,1,right\n", "line 3: value 'right' is not a number; write 1 for a right answer"),
        (HEADER + "a,0,p,0,7\n", "line 2: value 7 is not from 0 to 1; scale"),
        (HEADER + "a,0,p,0,nan\n", "line 2: value 'nan' is not a number"),
        (HEADER + "a,x,p,0,1\n", "line 2: seed 'x' is not a whole number; number the runs"),
        (HEADER + 'a,0,"p\nq",0,1\n,0,p,0,1\n', "line 4: method is empty; give each response its method"),
        (HEADER + "a,0,p,0,1\na,0,p,1\n", "line 3: 4 fields where the first line names 5; quote"),
        (
            HEADER + "a,0,p,0,1\na,1,p,0,1\na,0,p,0,0\n",
            "line 4: method a, seed 0, problem p, sample 0 was there before, in",
        ),
        (
            HEADER
            + "".join(f"a,{seed},p{problem},{it},1\n" for seed in "01" for problem in "012" for it in "01")[
                : -len("a,1,p2,1,1\n")
            ],
            "method a, seed 1 has 1 samples of problem p2, others have 2; give every run the same problems",
        ),
        (HEADER + "a,0,p,0,1\na,0,q,0,1\nb,0,p,0,1\n", "method b, seed 0 has 0 samples of problem q, others have 1"),
        (b"\xff\xfe\x00", "is not CSV in UTF-8"),
    ],
)
def test_a_bad_table_is_one_line_that_names_the_place_and_the_remedy(
    text: str | bytes, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    said = error_of(capsys, "leaderboard", str(path))
    assert says in said and str(path) in said


def test_what_is_no_table_is_one_line(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.parquet").write_text("no parquet")
    for words, says in (
        ([str(tmp_path / "none.csv")], "is not there; name a CSV or parquet file with the columns method, seed"),
        ([str(tmp_path / "bad.parquet")], "cannot be read as parquet"),
        ([str(table), str(table)], "put all methods into one table"),
        ([str(table), "runs/compare"], "name no folder"),
        ([str(table), "benchmarks=aime24"], "benchmarks= is of runs"),
        ([str(table), "baseline=verl gpro"], "did you mean verl grpo"),
    ):
        assert says in error_of(capsys, "leaderboard", *words)
    for given, says in ((3, "a int holds no results"), ({"method": ["a"], "seed": []}, "different lengths")):
        with pytest.raises(UserError, match=says):
            rlzoo.leaderboard(given)


def test_equal_values_are_not_taken_for_the_same_responses() -> None:
    rows = [
        {"method": method, "seed": seed, "problem": problem, "sample": 0, "value": True}
        for method in "ab"
        for seed in (0, 1)
        for problem in range(20)
    ]
    board = make_table_leaderboard(as_result_table(rows))
    findings = {result.average.verdict.finding for row in board.rows for result in row.results.values()}
    assert findings == {Finding.BASELINE, Finding.NOT_DISTINGUISHABLE} and not board.alike
    assert np.mean([result.accuracy.mean for row in board.rows for result in row.results.values()]) == 1
