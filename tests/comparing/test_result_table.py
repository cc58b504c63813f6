"""Statistics for anyone: a table of any trainer's results gives the whole page, and a bad table one line."""

import csv
import io
import json
import re
import struct
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest
from pyarrow import parquet

import rlzoo
from rlzoo.comparing.leaderboard import Leaderboard, make_table_leaderboard
from rlzoo.comparing.result_table import as_result_table, read_result_table
from rlzoo.comparing.results import ACCURACY
from rlzoo.errors import UserError
from rlzoo.files import write_json
from rlzoo.report.leaderboard import markdown, records
from rlzoo.report.leaderboard_sentences import MANY_ROWS, discoveries, planning
from rlzoo.report.table import in_markdown
from rlzoo.statistics.verdicts import Finding
from tests.comparing.finished_runs import row_of
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


def test_a_table_of_one_method_is_drawn_without_differences(tmp_path: Path) -> None:
    rows = "".join(f"mine,{seed},p{problem},0,{problem % 2}\n" for seed in range(2) for problem in range(4))
    (tmp_path / "one.csv").write_text(HEADER + rows, encoding="utf-8")
    frame = rlzoo.leaderboard(tmp_path / "one.csv", output=str(tmp_path / "out"))
    assert len(frame) == 1 and (tmp_path / "out" / "leaderboard.html").exists()


@pytest.mark.slow
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


def test_the_order_of_rows_changes_nothing() -> None:
    frame = with_rates({"grpo": 0.4, "a": 0.56}, problems=12)
    boards = [board_of(rows) for rows in (frame, frame.iloc[::-1], frame.sample(frac=1, random_state=1))]
    (place,) = boards[0].decodings
    differences = [row_of(board, "a").results[place].difference for board in boards]
    for other in differences[1:]:
        for name in ("mean", "low", "high", "p_value", "detectable", "seeds_needed"):
            assert getattr(other, name) == pytest.approx(getattr(differences[0], name), rel=1e-9)


def test_the_index_of_a_parquet_file_is_passed_over(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"method": ["g", "d"] * 2, "seed": ["0", "0", "1", "x"], "problem": "p", "sample": 0})
    frame.assign(value=1).iloc[1:].to_parquet(tmp_path / "indexed.parquet")
    with pytest.raises(UserError, match=r"indexed\.parquet, row 3: seed 'x' is not a whole number"):
        make_table_leaderboard(read_result_table(tmp_path / "indexed.parquet"))
    frame.assign(value=[1, 1, 1, 7], seed=0).iloc[::-1].to_parquet(tmp_path / "reversed.parquet")
    with pytest.raises(UserError, match=r"reversed\.parquet, row 1: value 7 is not from 0 to 1"):
        make_table_leaderboard(read_result_table(tmp_path / "reversed.parquet"))


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
        (HEADER + "a,0,p,0,1\na,0,p,1,right\n", "row 2: value 'right' is not a number; write 1 for a right answer"),
        (HEADER + "a,0,p,0,7\n", "row 1: value 7 is not from 0 to 1; scale"),
        (HEADER + "a,0,p,0,nan\n", "row 1: value 'nan' is not a number"),
        (HEADER + "a,x,p,0,1\n", "row 1: seed 'x' is not a whole number; number the runs"),
        (HEADER + 'a,0,"p\nq",0,1\n,0,p,0,1\n', "row 2: method is empty; give each response its method"),
        (HEADER + "a,0,p,0,1\na,0,p,1\n", "row 2: value is empty; give each response its value"),
        (
            HEADER + "a,0,p,0,1\na,1,p,0,1\na,0,p,0,0\n",
            "row 3: method a, seed 0, problem p, sample 0 was there before, in",
        ),
        (
            HEADER
            + "".join(f"a,{seed},p{problem},{it},1\n" for seed in "01" for problem in "012" for it in "01")[
                : -len("a,1,p2,1,1\n")
            ],
            "method a, seed 1 has 1 samples of problem p2, others have 2; give every run the same problems",
        ),
        (HEADER + "a,0,p,0,1\na,0,q,0,1\nb,0,p,0,1\n", "method b, seed 0 has 0 samples of problem q, others have 1"),
        (b"\xff\xfe\x00", "cannot be read as CSV in UTF-8"),
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
    for given, says in ((3, "a int holds no results"), ({"method": ["a"], "seed": []}, "each row is a response")):
        with pytest.raises(UserError, match=says):
            rlzoo.leaderboard(given)


def test_the_table_that_is_read_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "leaderboard.csv"
    path.write_text(text := HEADER + "a,0,p,0,1\nb,0,p,0,0\n")
    said = error_of(capsys, "leaderboard", "leaderboard.csv", "output=.")
    assert "output=. would replace leaderboard.csv, the table that is read; choose another" in said
    assert path.read_text() == text and list(tmp_path.iterdir()) == [path]


# ---- what a table can get wrong --------------------------------------------------------------------------------------


def with_rates(
    rates: dict[str, float], seeds: int = 3, problems: int = 60, run: float = 0.5, draws: int = 3
) -> pandas.DataFrame:
    """Methods whose training runs differ from problem to problem, by `run` on the logit scale."""
    draw, rows = np.random.default_rng(draws), list[pandas.DataFrame]()
    hardness = draw.normal(size=problems)
    for method, rate in rates.items():
        for seed in range(seeds):
            chance = 1 / (1 + np.exp(-(np.log(rate / (1 - rate)) + hardness + run * draw.normal(size=problems))))
            value = (draw.random((problems, 8)) < chance[:, None]).astype(float)
            index = pandas.MultiIndex.from_product([range(problems), range(8)], names=["problem", "sample"])
            rows.append(index.to_frame(index=False).assign(method=method, seed=seed, value=value.ravel()))
    return pandas.concat(rows, ignore_index=True)


def board_of(frame: pandas.DataFrame, **settings: Any) -> Leaderboard:
    """With the baseline grpo."""
    return make_table_leaderboard(as_result_table(frame), "grpo", **settings)


def test_two_names_for_the_same_answers_count_once() -> None:
    frame = with_rates({"grpo": 0.4, "a": 0.6, "b": 0.5})
    again = frame[frame["method"].isin(["grpo", "a"])].replace({"method": {"grpo": "copy", "a": "a again"}})
    alone, copied = board_of(frame), board_of(pandas.concat([frame, again]))
    (place,) = alone.decodings
    found = {str(row.name): row.results[place].average for row in copied.rows}
    assert found["copy"].verdict.finding is Finding.SAME_RESPONSES
    expected = {str(row.name): row.results[place].average for row in alone.rows}
    assert found["a"] == found["a again"] == expected["a"] and found["b"] == expected["b"]
    assert len(copied.alike) == 2


def test_the_untrained_model_of_a_table_is_a_reference_and_no_competitor_unless_it_is_the_baseline() -> None:
    frame, start = with_rates({"grpo": 0.4, "a": 0.6}), with_rates({"untrained": 0.3}, draws=9)
    both = pandas.concat([frame, start])
    alone, beside = board_of(frame), board_of(both)
    (place,) = alone.decodings
    averages = [[row.results[place].average for row in board.rows] for board in (alone, beside)]
    assert averages[0] == averages[1]
    assert beside.start(place) == pytest.approx(start["value"].mean()) and "| untrained model |" in markdown(beside)
    assert len(make_table_leaderboard(as_result_table(both), "untrained").rows) == 3


def test_no_seeds_are_asked_for_of_rows_about_which_nothing_is_known() -> None:
    frame = with_rates({"grpo": 0.4, "a": 0.42})
    copy = frame[frame["method"] == "grpo"].assign(method="copy")
    once = with_rates({"once": 0.45}, seeds=1)
    board = board_of(pandas.concat([frame, copy, once]))
    (needed,) = [line for line in planning(board) if "seeds needed" in line]
    assert re.search(r"seen \(as at the ends of its interval\): a \d+ \(from [^,]*\)\.$", needed)
    known = {row["objective"]: (row["detectable"], row["seeds_needed"]) for row in records(board)}
    assert all(known["a"]) and known["copy"] == known["once"] == (None, None)
    assert not planning(board_of(frame[frame["seed"] == 0]))


def test_responses_tell_methods_apart_that_have_the_same_values() -> None:
    frame = with_rates({"grpo": 0.5})
    other = frame.assign(method="other", response="elsewhere")
    (place,) = (board := board_of(pandas.concat([frame.assign(response="here"), other]))).decodings
    assert not board.alike
    assert {row.results[place].average.verdict.finding for row in board.rows} == {
        Finding.BASELINE,
        Finding.NOT_DISTINGUISHABLE,
    }


def test_a_placeholder_for_every_response_makes_no_two_methods_one() -> None:
    frame = with_rates({"grpo": 0.4, "a": 0.6}).assign(response="...")
    assert not board_of(frame).alike
    told = with_rates({"grpo": 0.4}).assign(response=lambda rows: [str(number) for number in range(len(rows))])
    right = with_rates({"b": 0.5}).assign(response="", value=1.0)
    assert not board_of(pandas.concat([told, right, right.assign(method="c")])).alike


def test_a_table_with_a_lost_response_is_judged_on_the_problems_that_all_runs_have() -> None:
    frame = with_rates({"grpo": 0.4, "a": 0.7})
    lost = frame.drop(index=frame[(frame["method"] == "a") & (frame["problem"] == 7)].index[0])
    board, expected = board_of(lost), board_of(frame[frame["problem"] != 7])
    (place,) = board.decodings
    for row, other in zip(board.rows, expected.rows, strict=True):
        assert row.results[place].average == other.results[place].average
    assert board.problems == 59
    (note,) = board.notes
    assert note.startswith("1 of 60 problems are left out in all rows") and "method a, seed 0 has 7 samples" in note


def test_the_samples_of_one_decoding_change_nothing_that_is_said_of_another() -> None:
    frame = with_rates({"grpo": 0.4, "a": 0.62}, problems=10, run=0.0).assign(decoding="T=1")
    greedy = frame[frame["sample"] == 0].assign(decoding="greedy")
    repeated = pandas.concat([greedy.assign(sample=sample) for sample in range(8)])
    once, often = (board_of(pandas.concat([frame, it])) for it in (greedy, repeated))
    place = once.decodings[0]
    differences = [row.results[place].difference for board in (once, often) for row in board.rows]
    assert differences[:2] == differences[2:]


@pytest.mark.parametrize("draws", range(3))
def test_seeds_that_are_evaluations_of_one_model_are_warned_of_and_training_runs_are_not(draws: int) -> None:
    rates = {f"m{number}": 0.3 + 0.05 * number for number in range(4)} | {"grpo": 0.4}
    trained, evaluated = board_of(with_rates(rates, draws=draws)), board_of(with_rates(rates, run=0.0, draws=draws))
    assert not trained.notes
    (note,) = evaluated.notes
    assert "no more than their samples explain" in note and in_markdown(note) in markdown(evaluated)


def test_interim_analyses_of_a_table_are_counted_where_its_leaderboard_lies(tmp_path: Path) -> None:
    frame = with_rates({"grpo": 0.4, "a": 0.5}, seeds=7)
    counts = [board_of(frame[frame["seed"] < seeds], folder=tmp_path).looks for seeds in (3, 5, 5, 7)]
    assert counts == [1, 2, 2, 3]
    (place,) = (once := board_of(frame)).decodings
    often = board_of(frame, folder=tmp_path)
    assert "corrected for 3 analyses" in markdown(often) and "analyses" not in markdown(once)
    p_values = [
        next(row.results[place].difference for row in board.rows if not row.is_baseline) for board in (once, often)
    ]
    assert p_values[0] and p_values[1] and p_values[1].p_value == pytest.approx(min(1.0, 3 * p_values[0].p_value))
    assert board_of(frame[frame["problem"] < 40], folder=tmp_path).looks == 1, "other problems are another table"


def test_a_decoding_that_is_added_keeps_the_count_of_the_others(tmp_path: Path) -> None:
    frame = with_rates({"grpo": 0.4, "a": 0.5}, seeds=4, problems=12).assign(decoding="T=1")
    both = pandas.concat([frame, frame[frame["sample"] == 0].assign(decoding="greedy")])
    counts = [board_of(frame[frame["seed"] < seeds], folder=tmp_path).looks for seeds in (2, 3)]
    assert [*counts, board_of(both, folder=tmp_path).looks] == [1, 2, 3]
    assert board_of(both[both["seed"] < 3], folder=tmp_path).looks == 3
    asked = json.dumps(sorted({*zip(both["problem"].astype(str), both["decoding"], strict=True)})).encode()
    before = json.dumps(["a", blake2b(asked, digest_size=8).hexdigest()])  # as earlier versions wrote it
    write_json(tmp_path / "earlier" / "looks.json", {before: [[0], [0, 1], [0, 1, 2], [0, 2]]})
    assert board_of(both, folder=tmp_path / "earlier").looks == 5


def test_a_primary_measure_is_corrected_for_itself_alone() -> None:
    frame = with_rates({"grpo": 0.4, "a": 0.46, "b": 0.44, "c": 0.42})
    (place,) = (together := board_of(frame)).decodings
    named = board_of(frame, primary="pass")
    for row, other in zip(together.rows, named.rows, strict=True):
        before, after = row.results[place].measured, other.results[place].measured
        assert before[ACCURACY] == after[ACCURACY]
        if not row.is_baseline:
            wide, narrow = before["pass"].difference, after["pass"].difference
            assert wide and narrow and narrow.mean == wide.mean
            assert narrow.half_width < wide.half_width and narrow.p_value <= wide.p_value
    assert "By the primary measure, which is corrected for itself alone: at " in markdown(named)
    assert board_of(frame.assign(decoding="T=1"), primary="pass at T=1").primary
    with pytest.raises(UserError, match="primary=passs: nothing is measured so; write a measure, or one of avg at"):
        board_of(frame, primary="passs")


ROWS = {"method": ["grpo", "dapo"], "seed": [0, 0], "problem": [0, 0], "sample": [0, 0], "value": [0, 1]}


def test_no_two_seeds_are_one_and_no_column_hides_another(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"row 2: seed {2**62 + 1} is too large to be told from the next"):
        make_table_leaderboard(as_result_table({**ROWS, "seed": [0, 2**62 + 1]}))
    (tmp_path / "twice.csv").write_text("method,seed,problem,sample,value,value\ngrpo,0,0,0,1,0\n")
    with pytest.raises(UserError, match=r"twice\.csv has several columns 'value'; leave one of them"):
        read_result_table(tmp_path / "twice.csv")


@pytest.mark.parametrize(
    "seeds",
    [
        pyarrow.Array.from_buffers(
            pyarrow.string(), 2, [None, pyarrow.py_buffer(struct.pack("3i", 0, 1, 2)), pyarrow.py_buffer(b"\xff\xfe")]
        ),
        pyarrow.array([2**40, 0], pyarrow.timestamp("s")),
        pyarrow.array([2**62, 0], pyarrow.duration("s")),
        pyarrow.array([2**30, 0], pyarrow.date32()),
        pyarrow.array([0, 1], pyarrow.timestamp("us", tz="Nowhere/Land")),
    ],
    ids=["text", "time", "duration", "date", "zone"],
)
def test_parquet_whose_values_python_does_not_have_is_one_line(seeds: pyarrow.Array, tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({**ROWS, "seed": seeds}), tmp_path / "bad.parquet")
    with pytest.raises(UserError, match=r"cannot be read as parquet|is not a whole number"):
        make_table_leaderboard(read_result_table(tmp_path / "bad.parquet"))
