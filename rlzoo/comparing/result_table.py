"""Tables of anybody's results: a row for each response, with the columns method, seed, problem, sample and value.

`value` is from 0 to 1, 1 for a right answer. Two further columns are read if they are there: `set`, the problem set,
and `decoding`, how it was sampled. The order of columns and rows is free, other columns are passed over.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from rlzoo.comparing.results import Answers, Place, ScoredRun, TablePlace
from rlzoo.errors import UserError, nearest, one_line

NEEDED = ("method", "seed", "problem", "sample", "value")
PLACES = ("set", "decoding")
SUFFIXES = (".csv", ".parquet")
TRUTH = {"true": "1", "false": "0"}


@dataclass(frozen=True)
class ResultTable:
    """Columns of equal length."""

    name: str
    """For messages: the file."""
    columns: Mapping[str, Sequence[Any]]
    lines: Sequence[int] = ()
    """Of a file of lines, where each row ends; otherwise rows are counted from 1."""

    def where(self, row: int) -> str:
        """What a message calls a row."""
        return f"{self.name}, line {self.lines[row]}" if self.lines else f"{self.name}, row {row + 1}"

    def column(self, name: str) -> list[str]:
        """Its texts. Raises UserError for one that is empty."""
        texts = ["" if value is None else str(value).strip() for value in self.columns[name]]
        if "" in texts:
            self._refuse(texts.index(""), f"{name} is empty", f"give each response its {name}")
        return texts

    def seeds(self) -> np.ndarray:
        """[rows]. Raises UserError for what is not a whole number."""
        texts = self.column("seed")
        numbers = _numbers(texts)
        for row in np.flatnonzero(~(np.isfinite(numbers) & (numbers == np.round(numbers))))[:1]:
            self._refuse(row, f"seed {texts[row]!r} is not a whole number", "number the runs of a method 0, 1, 2, ...")
        return numbers.astype(np.int64)

    def values(self) -> np.ndarray:
        """[rows]. Raises UserError for what is no number from 0 to 1."""
        texts = self.column("value")
        numbers = _numbers([TRUTH.get(text.lower(), text) for text in texts])
        for row in np.flatnonzero(~np.isfinite(numbers))[:1]:
            self._refuse(
                row, f"value {texts[row]!r} is not a number", "write 1 for a right answer and 0 for a wrong one"
            )
        for row in np.flatnonzero((numbers < 0) | (numbers > 1))[:1]:
            self._refuse(row, f"value {texts[row]} is not from 0 to 1", "scale rewards so that 1 is the best")
        return numbers

    def _refuse(self, row: int, problem: str, remedy: str) -> NoReturn:
        raise UserError(f"{self.where(row)}: {problem}; {remedy}")


def _numbers(texts: Sequence[str]) -> np.ndarray:
    """NaN for what is none."""
    try:
        return np.array(texts, dtype=np.float64)
    except ValueError:
        return np.array([_number(text) for text in texts])


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


# ---- from files and from Python --------------------------------------------------------------------------------------


def is_result_table(word: str) -> bool:
    """Whether a word of the command line names one."""
    return word.lower().endswith(SUFFIXES)


def read_result_table(path: Path) -> ResultTable:
    """The table in a CSV or parquet file. Raises UserError if it cannot be read, or lacks a column."""
    if not path.is_file():
        raise UserError(f"{path} is not there; name a CSV or parquet file with the columns {', '.join(NEEDED)}")
    return _checked(_read_csv(path) if path.suffix.lower() == ".csv" else _read_parquet(path))


def _read_csv(path: Path) -> ResultTable:
    rows, lines = list[list[str]](), list[int]()
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            for row in reader:
                if row:
                    rows.append(row)
                    lines.append(reader.line_num)
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not CSV in UTF-8: {one_line(error)}; write it anew") from None
    header = [name.strip() for name in rows[0]] if rows else []
    for row, line in zip(rows[1:], lines[1:], strict=True):
        if len(row) != len(header):
            fields = f"{len(row)} fields where the first line names {len(header)}"
            raise UserError(f"{path}, line {line}: {fields}; quote fields that hold a comma")
    columns = zip(*rows[1:], strict=True) if len(rows) > 1 else ([] for _ in header)
    return ResultTable(str(path), dict(zip(header, map(list, columns), strict=True)), lines[1:])


def _read_parquet(path: Path) -> ResultTable:
    from pyarrow import ArrowException, parquet

    try:
        names = parquet.read_schema(path).names
        table = parquet.read_table(path, columns=[name for name in names if name in {*NEEDED, *PLACES}])
    except (ArrowException, OSError) as error:
        raise UserError(f"{path} cannot be read as parquet: {one_line(error)}; write it anew") from None
    return ResultTable(str(path), {**dict.fromkeys(names, ()), **table.to_pydict()})


def as_result_table(given: object, name: str = "the table") -> ResultTable:
    """The table in a frame, in columns by name, or in a list of rows by name. Raises UserError for anything else."""
    columns: dict[str, Sequence[Any]]
    if isinstance(given, Mapping) or hasattr(given, "columns"):
        names = given.keys() if isinstance(given, Mapping) else given.columns
        columns = {str(column): list(given[column]) for column in names}  # type: ignore[index]
    elif isinstance(given, Sequence) and given and all(isinstance(row, Mapping) for row in given):
        columns = {str(column): [row.get(column) for row in given] for column in given[0]}
    else:
        kinds = "a pandas frame, a dictionary of columns, or a list of dictionaries"
        raise UserError(f"a {type(given).__name__} holds no results; give a folder, a file, {kinds}")
    lengths = {column: len(values) for column, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise UserError(f"{name}: its columns have different lengths, {lengths}; each row is a response")
    return _checked(ResultTable(name, columns))


def _checked(table: ResultTable) -> ResultTable:
    for column in NEEDED:
        if column not in table.columns:
            others = ", ".join(table.columns) or "nothing"
            raise UserError(
                f"{table.name} has no column {column!r}; it has {others}, and needs {', '.join(NEEDED)}, a row for "
                f"each response{nearest(column, table.columns)}"
            )
    if not len(table.columns["value"]):
        raise UserError(f"{table.name} has no rows; it needs one for each response")
    return table


# ---- runs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scores:
    """What a table says."""

    runs: Mapping[str, Sequence[ScoredRun]]
    """By method, in the order of the table."""
    places: Sequence[Place]
    problems: int
    """Of all problem sets, each once."""


def scores_of(table: ResultTable) -> Scores:
    """Runs and what they scored. Raises UserError unless all runs have as many samples of the same problems."""
    values, seeds = table.values(), table.seeds()
    texts = {name: table.column(name) for name in (*NEEDED[:4], *PLACES) if name in table.columns}
    of_rows = [
        TablePlace(*place) for place in zip(*(texts.get(name, [""] * len(values)) for name in PLACES), strict=True)
    ]
    places = list(dict.fromkeys(of_rows))
    runs = list(dict.fromkeys(zip(texts["method"], seeds.tolist(), strict=True)))
    run_of = _codes(list(zip(texts["method"], seeds.tolist(), strict=True)), runs)
    place_of = _codes(of_rows, places)
    samples = _codes(texts["sample"], list(dict.fromkeys(texts["sample"])))
    answers: dict[tuple[str, int], dict[Place, Answers]] = {run: {} for run in runs}
    problems: dict[str, int] = {}
    for number, place in enumerate(places):
        here = np.flatnonzero(place_of == number)
        names = list(dict.fromkeys(texts["problem"][row] for row in here))
        problem_of = _codes([texts["problem"][row] for row in here], names)
        order = np.lexsort((samples[here], problem_of, run_of[here]))
        _refuse_twice(table, texts, here[order], np.stack([run_of[here], problem_of, samples[here]])[:, order])
        counts = np.zeros((len(runs), len(names)), dtype=np.int64)
        np.add.at(counts, (run_of[here], problem_of), 1)
        _refuse_unequal(table, place, counts, runs, names)
        for run, of_run in zip(runs, values[here[order]].reshape(len(runs), len(names), -1), strict=True):
            answers[run][place] = Answers(of_run, (run, place))
        problems[place.problem_set] = len(names)
    methods = dict.fromkeys(texts["method"])
    return Scores(
        {
            wanted: [ScoredRun(seed, answers[method, seed]) for method, seed in sorted(runs) if method == wanted]
            for wanted in methods
        },
        list[Place](places),
        sum(problems.values()),
    )


def _codes(values: Sequence[Any], distinct: Sequence[Any]) -> np.ndarray:
    """[rows] where each value stands among the distinct ones."""
    numbers = {value: number for number, value in enumerate(distinct)}
    return np.array([numbers[value] for value in values], dtype=np.int64)


def _refuse_twice(table: ResultTable, texts: Mapping[str, Sequence[str]], rows: np.ndarray, keys: np.ndarray) -> None:
    twice = np.flatnonzero((keys[:, 1:] == keys[:, :-1]).all(axis=0))
    if len(twice):
        first, second = sorted(rows[twice[0] : twice[0] + 2].tolist())
        what = ", ".join(f"{name} {texts[name][second]}" for name in texts)
        before = f"was there before, in {table.where(first)}"
        raise UserError(f"{table.where(second)}: {what} {before}; leave one of them out")


def _refuse_unequal(
    table: ResultTable,
    place: TablePlace,
    counts: np.ndarray,
    runs: Sequence[tuple[str, int]],
    problems: Sequence[str],
) -> None:
    usual = int(np.median(counts[counts > 0]))
    unequal = np.argwhere(counts != usual)
    if len(unequal):
        run, problem = unequal[0]
        (method, seed), samples = runs[run], counts[run, problem]
        at = f" at {place}" if any(vars(place).values()) else ""
        raise UserError(
            f"{table.name}: method {method}, seed {seed} has {samples} samples of problem {problems[problem]}{at}, "
            f"others have {usual}; give every run the same problems and samples, or leave out what is not complete"
        )
