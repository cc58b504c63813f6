"""A value reaches golds and rewards as it stands in the file: type, digits, spelling."""

import csv
import gzip
import io
import json
import math
import pickle
import zipfile
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlzoo.config import TaskConfig
from rlzoo.errors import UserError
from rlzoo.tasks import Problem, load_task
from rlzoo.tasks.dataset import DatasetTask
from rlzoo.tasks.regrading import from_json, to_json
from rlzoo.tasks.reward import ROW
from rlzoo.tasks.rows import Split, read_rows

PER_FILE = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)

_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30)
_dates = st.one_of(st.dates().map(str), st.datetimes().map(datetime.isoformat), st.just("12:30"), st.just("1e5"))
_numbers = st.one_of(
    st.integers(-(10**60), 10**60).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(lambda number: f"{number:f}"),
    st.from_regex(r"-?[1-9]\.[0-9]{1,25}[eE][-+]?[1-9][0-9]?", fullmatch=True),
)
_answers = st.one_of(_text, _dates).filter(lambda text: text.strip() == text and "#" not in text and "<" not in text)


def problems(name: str, **keys: Any) -> list[Problem]:
    """Those of a file, in its order."""
    (task, other) = (load_task(TaskConfig(name, held_out=name, **keys)) for _ in "12")
    assert len(task.held_out) == len(other.held_out)
    return list(task.held_out)


def rewarded(tmp_path: Path, name: str) -> list[dict[str, Any]]:
    """What a reward is told of each row."""
    (tmp_path / "reward.py").write_text("def reward(response, **columns):\n    return 0\n")
    return [dict(problem.data[ROW]["columns"]) for problem in problems(name, reward=[f"{tmp_path}/reward.py:reward"])]


def as_lines(rows: Sequence[str], end: str = "\n") -> bytes:
    return "".join(row + end for row in rows).encode()


def as_csv(answers: Sequence[str]) -> bytes:
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerows([("question", "answer"), *((f"{place}?", answer) for place, answer in enumerate(answers))])
    return table.getvalue().encode()


WRITERS: dict[str, Callable[[Sequence[str]], bytes]] = {
    "data.jsonl": lambda rows: as_lines(rows),
    "marked.jsonl": lambda rows: b"\xef\xbb\xbf" + as_lines(rows, "\r\n"),
    "wide.jsonl": lambda rows: as_lines(rows).decode().encode("utf-16"),
    "data.jsonl.gz": lambda rows: gzip.compress(as_lines(rows)),
    "list.json": lambda rows: f"[{','.join(rows)}]".encode(),
    "lines.json": lambda rows: as_lines(["[", ",\n".join(rows), "]"]),
    "indented.json": lambda rows: as_lines([json.dumps(json.loads(row, parse_float=str), indent=1) for row in rows]),
}


@PER_FILE
@given(answers=st.lists(_answers, min_size=1, max_size=5), name=st.sampled_from([*WRITERS, "data.csv", "data.csv.gz"]))
def test_a_text_is_the_gold_answer_that_the_file_has(answers: list[str], name: str, tmp_path: Path) -> None:
    rows = [json.dumps({"question": f"{place}?", "answer": answer}) for place, answer in enumerate(answers)]
    is_csv = ".csv" in name
    written = as_csv(answers) if is_csv else WRITERS[name](rows)
    (tmp_path / name).write_bytes(gzip.compress(written, mtime=0) if name == "data.csv.gz" else written)
    assert [problem.answer for problem in problems(str(tmp_path / name))] == answers


@PER_FILE
@given(numbers=st.lists(_numbers, min_size=1, max_size=5), name=st.sampled_from([*WRITERS][:-1]))
def test_a_number_keeps_its_digits_and_its_type(numbers: list[str], name: str, tmp_path: Path) -> None:
    rows = [f'{{"question": "{place}?", "answer": {number}}}' for place, number in enumerate(numbers)]
    (tmp_path / name).write_bytes(WRITERS[name](rows))
    assert [problem.answer for problem in problems(str(tmp_path / name))] == [
        number if set(number) & set(".eE") else str(int(number)) for number in numbers
    ]
    for number, columns in zip(numbers, rewarded(tmp_path, str(tmp_path / name)), strict=True):
        assert columns["answer"] == json.loads(number)
        assert isinstance(columns["answer"], type(json.loads(number)))
        assert str(pickle.loads(pickle.dumps(columns["answer"]))) == str(columns["answer"])


def test_cells_of_csv_are_texts_whatever_is_in_them(tmp_path: Path) -> None:
    cells = ["007", "1.10", "NA", "null", "true", "2031-04-10", "1e5", 'a "b"', "two\r\nlines", "1,234", " 5"]
    (tmp_path / "my.csv").write_bytes(b"\xef\xbb\xbf" + as_csv(cells))
    assert [columns["answer"] for columns in rewarded(tmp_path, str(tmp_path / "my.csv"))] == cells


def test_an_integer_of_any_length_and_a_truth_are_spelled_as_in_the_file(tmp_path: Path) -> None:
    wanted = ["7" * 5000, "-" + "3" * 400, "true", "false", "Infinity"]
    rows = [f'{{"question": "{place}?", "answer": {answer}}}' for place, answer in enumerate(wanted)]
    (tmp_path / "data.jsonl").write_bytes(as_lines([*rows, '{"question": "x?", "answer": NaN}']))
    assert [problem.answer for problem in problems(str(tmp_path / "data.jsonl"))] == wanted


def test_objects_and_lists_of_a_row_reach_rewards_as_they_are_in_it(tmp_path: Path) -> None:
    infos = [{"a": 1}, {"b": [1, "1", None, 1.5]}, [], "text", None, {"a": "2031-04-10"}]
    rows = [json.dumps({"question": f"{place}?", "answer": "1", "info": info}) for place, info in enumerate(infos)]
    (tmp_path / "data.jsonl").write_bytes(as_lines([*rows, '{"question": "y?", "answer": "1"}']))
    assert [columns["info"] for columns in rewarded(tmp_path, str(tmp_path / "data.jsonl"))] == [*infos, None]


def test_the_members_of_a_list_stay_apart(tmp_path: Path) -> None:
    rows = [{"question": "a?", "answer": ["1", "234"]}, {"question": "b?", "answer": ["1,234"]}]
    (tmp_path / "data.jsonl").write_bytes(as_lines([*map(json.dumps, rows)]))
    grader = load_task(TaskConfig(str(tmp_path / "data.jsonl"))).grader
    two, one = problems(str(tmp_path / "data.jsonl"))
    assert [grader(two, rf"\boxed{{{answer}}}").correct for answer in ("1, 234", "234, 1", "1234")] == [1, 1, 0]
    assert [grader(one, rf"\boxed{{{answer}}}").correct for answer in ("1234", "1, 234")] == [1, 0]


def test_parquet_gives_its_own_types(tmp_path: Path) -> None:
    columns = {
        "question": pa.array([b"a?", b"b?"]),
        "answer": pa.array([Decimal("1.10"), Decimal("2.00")]),
        "single": pa.array([0.1, None], pa.float32()),
        "day": pa.array([date(2031, 4, 10), None]),
        "moment": pa.array([datetime(2031, 4, 10, 8, 30), None]),
        "bytes": pa.array([b"\xff\x00", b"text"]),
        "long": pa.array([2**63 - 1, None]),
    }
    pq.write_table(pa.table(columns), tmp_path / "data.parquet")
    assert [problem.answer for problem in problems(str(tmp_path / "data.parquet"))] == ["1.10", "2.00"]
    first = rewarded(tmp_path, str(tmp_path / "data.parquet"))[0]
    assert first == {name: column.to_pylist()[0] for name, column in columns.items()} | {"single": 0.1}
    assert from_json(json.loads(json.dumps(to_json(first)))) == first
    assert str(from_json(json.loads(json.dumps(to_json(first))))["single"]) == "0.1"


def test_single_precision_has_its_own_digits_however_deep_it_lies(tmp_path: Path) -> None:
    single = pa.float32()
    gold = pa.struct([("ground_truth", single), ("parts", pa.list_(single)), ("style", pa.string())])
    truths = [
        {"ground_truth": 1.1, "parts": [0.1, None], "style": "rule"},
        None,
        {"ground_truth": 0.3, "parts": None, "style": None},
        {"ground_truth": 2.5, "parts": [], "style": "rule"},
    ]
    columns = {
        "prompt": [[{"role": "user", "content": f"{place}?"}] for place in range(4)],
        "reward_model": pa.array(truths, gold),
        "list": pa.array([[0.1], None, [], [0.2, 0.7]], pa.large_list(single)),
        "pair": pa.array([[0.1, 0.2], None, [0.3, 0.4], [0.5, 0.6]], pa.list_(single, 2)),
        "told": pa.array([[{"ground_truth": 0.7}], [None], [], None], pa.list_(gold)),
        "sort": pa.array([0.1, 0.2, 0.1, None], single).dictionary_encode(),
    }
    name = str(tmp_path / "data.parquet")
    pq.write_table(pa.table(columns), name)
    assert [problem.answer for problem in problems(name)] == ["1.1", "0.3", "2.5"]
    told = [{"ground_truth": 0.7, "parts": None, "style": None}]
    rest = {
        "list": [[0.1], None, [], [0.2, 0.7]],
        "pair": [[0.1, 0.2], None, [0.3, 0.4], [0.5, 0.6]],
        "told": [told, [None], [], None],
        "sort": [0.1, 0.2, 0.1, None],
    }
    rows = rewarded(tmp_path, name)
    assert [row["reward_model"] for row in rows] == truths
    assert {column: [row[column] for row in rows] for column in rest} == rest


@pytest.mark.parametrize(
    "value",
    [
        {"tuple": [1, 2]},
        {"tuple": 5},
        {"tuple": (1, [2])},
        {"number": "5", "spelled": True},
        {"mapping": {"tuple": [1]}, "spelled": True},
        {"shape": ({"tuple": []}, (Decimal("1.10"),)), "spelled": True},
        {"tuple": [1], "more": 2},
    ],
)
def test_a_mapping_that_looks_like_a_mark_of_ours_is_kept_as_it_is(value: Any) -> None:
    again = from_json(json.loads(json.dumps(to_json(value))))
    assert again == value and repr(again) == repr(value)


def test_the_tuples_of_earlier_records_are_read() -> None:
    assert from_json({"digits": {"tuple": [1, {"tuple": []}]}}) == {"digits": (1, ())}
    assert to_json({"digits": (1, ())}) == {"digits": {"tuple": [1, {"tuple": []}]}}


def test_a_binary_answer_is_its_text_or_none(tmp_path: Path) -> None:
    pq.write_table(pa.table({"question": ["a?", "b?"], "answer": pa.array([b"x", b"\xff"])}), tmp_path / "data.parquet")
    assert [problem.answer for problem in problems(str(tmp_path / "data.parquet"))] == ["x"]


def test_a_folder_is_read_as_its_files_are(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for split in ("train", "test"):
        row = {"question": f"{split}?", "answer": "2031-04-10"}
        (tmp_path / "data" / f"{split}.jsonl").write_text(json.dumps(row))
    task = load_task(TaskConfig(str(tmp_path / "data")))
    assert {problem.answer for problem in [*task.train, *task.held_out]} == {"2031-04-10"}


def test_rows_of_a_file_without_the_columns_are_counted_as_dropped(tmp_path: Path) -> None:
    tables = [{"question": ["a?", "b?", "c?"], "answer": ["1", "2", "3"]}, {"input": ["d?", "e?"], "label": ["4", "5"]}]
    for suffix in ("parquet", "jsonl"):
        folder = tmp_path / suffix
        folder.mkdir()
        for place, columns in enumerate(tables):
            table = pa.table(columns)
            if suffix == "parquet":
                pq.write_table(table, folder / f"train-{place}.parquet")
            else:
                lines = [json.dumps(row) for row in table.to_pylist()]
                (folder / f"train-{place}.jsonl").write_bytes(as_lines(lines))
        task = DatasetTask(TaskConfig(str(folder)))
        assert len([*task.train, *task.held_out]) == 3
        assert task.dropped == ["row 4 has no question", "row 5 has no question"]


@pytest.mark.parametrize("named", ["../out.jsonl", "{outside}", "file://{outside}", "zip://a.jsonl::{outside}.zip"])
def test_a_folder_names_no_file_outside_of_it(named: str, tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "out.jsonl"
    folder.mkdir()
    for file in (outside, folder / "train.jsonl"):
        file.write_text('{"question": "1+1=", "answer": "2"}\n')
    with zipfile.ZipFile(f"{outside}.zip", "w") as archive:
        archive.write(outside, "a.jsonl")
    path = named.format(outside=outside)
    (folder / "README.md").write_text(
        f"---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: {path}\n---\n"
    )
    with pytest.raises(UserError, match=r"README\.md names .* which lies outside of it"):
        read_rows(Split("task.name", str(folder), "task.split", "train"))


def test_columns_that_only_later_rows_have_are_read(tmp_path: Path) -> None:
    early = [json.dumps({"question": f"{place}?", "note": 1}) for place in range(1200)]
    (tmp_path / "data.jsonl").write_bytes(as_lines([*early, '{"question": "z?", "answer": "5", "more": 7}']))
    assert [problem.answer for problem in problems(str(tmp_path / "data.jsonl"))] == ["5"]
    assert rewarded(tmp_path, str(tmp_path / "data.jsonl"))[-1]["more"] == 7
    cut = load_task(TaskConfig(str(tmp_path / "data.jsonl"), held_out_split="train[1200:]", split="train[:10]"))
    assert [problem.answer for problem in cut.held_out] == ["5"]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", b"question,answer,answer\n1?,1,2\n", r"names the column 'answer' twice.*; rename one of them"),
        ("a.jsonl", b'{"question": "1?", "answer": 1, "answer": 2}\n', r"line 1 names the column 'answer' twice"),
        ("b.jsonl", b'{"question": "1?", "answer": 1}\n{"question": "1?", "answer": {"a": 1, "a": 2}}', r"'a' twice"),
        ("a.json", b'[{"question": "1?", "answer": 1, "answer": 1}]', r"object 1 names the column 'answer' twice"),
        ("b.csv", b"question,answer\n1?,1\n2?,2,3\n", r"line 3 has 3 cells, and the header has 2"),
        ("c.csv", b'question,answer\n1?,"1\n', r"cannot be read or is empty: "),
        ("d.csv", b"question,answer\n", r"d\.csv .* is empty"),
        ("e.csv", b"question,answer\n\xe9?,1\n", r"is not in UTF-8 \(row 2\); recode it"),
        ("c.jsonl", b'{"question": "\\ud800?", "answer": 1}\n', r"line 1 has half of a character"),
        ("d.jsonl", b'"text"\n', r"is no object with a question and an answer"),
        ("b.json", b'[{"question": "1?", "answer": 1}', r"the list does not end"),
        ("a.jsonl.gz", gzip.compress(b'{"question": "1?"}\n', mtime=0)[:-9], r"cannot be read or is empty: "),
        ("b.jsonl.gz", b"no gzip", r"cannot be read or is empty: "),
    ],
)
def test_a_file_that_would_lose_something_is_one_line(name: str, content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=says) as caught:
        problems(str(tmp_path / name))
    assert "\n" not in str(caught.value)


def test_a_parquet_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table([["1?"], ["1"], ["2"]], names=["question", "answer", "answer"]), tmp_path / "data.parquet")
    with pytest.raises(UserError, match="names the column 'answer' twice"):
        problems(str(tmp_path / "data.parquet"))


def test_a_number_that_is_no_float_of_its_own_is_the_float_that_it_says(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text('{"question": "1?", "answer": "1", "bound": 1e400, "share": 0.50}\n')
    (columns,) = rewarded(tmp_path, str(tmp_path / "data.jsonl"))
    assert columns["bound"] == math.inf and f"{columns['share']}" == "0.50" and columns["share"] * 2 == 1
