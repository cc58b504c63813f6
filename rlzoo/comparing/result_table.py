"""Tables of any trainer's results: a row for each response, with the columns method, seed, problem, sample and value.

`value` is from 0 to 1, 1 for a right answer. A seed is a training run, not an evaluation. Further columns are read if
they are there: `set`, the problem set; `decoding`, how it was sampled; and `response`, its text, by which methods that
answered just the same are known. The order of columns and rows is free, other columns are passed over.
"""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from rlzoo.comparing.results import Answers, Place, ScoredRun, TablePlace
from rlzoo.errors import UserError, nearest, one_line
from rlzoo.statistics.spread import BEYOND_SAMPLING, beyond_sampling

NEEDED = ("method", "seed", "problem", "sample", "value")
PLACES = ("set", "decoding")
RESPONSE = "response"
SUFFIXES = (".csv", ".parquet")
_LARGEST_SEED = 2**53
TRUTH = {"true": "1", "false": "0"}
LEAST_COMPLETE = 0.9
"""The share of the problems that all runs have to have answered in full; the others are then left out."""
COINCIDENCE = 1e-9
"""The chance of answers that agree everywhere below which two methods with the same values are one."""


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
        """[rows]. Raises UserError for what is not a whole number, or so large that a float may stand for another."""
        texts, remedy = self.column("seed"), "number the runs of a method 0, 1, 2, ..."
        numbers = _numbers(texts)
        for row in np.flatnonzero(~(np.isfinite(numbers) & (numbers == np.round(numbers))))[:1]:
            self._refuse(row, f"seed {texts[row]!r} is not a whole number", remedy)
        for row in np.flatnonzero(np.abs(numbers) >= _LARGEST_SEED)[:1]:
            self._refuse(row, f"seed {texts[row]} is too large to be told from the next", remedy)
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
        raise UserError(f"{path} is not CSV in UTF-8: {one_line(error)}; write it again") from None
    header = [name.strip() for name in rows[0]] if rows else []
    if twice := [name for name in {*NEEDED, *PLACES, RESPONSE} if header.count(name) > 1]:
        raise UserError(f"{path} has several columns {twice[0]!r}; leave one of them")
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
        table = parquet.read_table(path, columns=[name for name in names if name in {*NEEDED, *PLACES, RESPONSE}])
        columns = table.to_pydict()
    except (ArrowException, OSError, ValueError, OverflowError) as error:  # text, or dates, that Python does not have
        raise UserError(f"{path} cannot be read as parquet: {one_line(error)}; write it again") from None
    return ResultTable(str(path), {**dict.fromkeys(names, ()), **columns})


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
    notes: Sequence[str] = ()
    """What is to be said of the table."""

    asked: str = ""
    """A digest of all problems, also of those that are left out."""

    @property
    def analysed(self) -> dict[str, list[int]]:
        """The seeds of each method, by a name that it has in every table of these problems."""
        return {json.dumps([method, self.asked]): [run.seed for run in runs] for method, runs in self.runs.items()}


def scores_of(table: ResultTable) -> Scores:
    """Runs and what they scored, on the problems that all of them have answered in full.

    Raises UserError if these are too few.
    """
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
    responses = list(map(str, table.columns.get(RESPONSE, ())))
    notes = list[str]()
    for number, place in enumerate(places):
        here = np.flatnonzero(place_of == number)
        names = list(dict.fromkeys(texts["problem"][row] for row in here))
        problem_of = _codes([texts["problem"][row] for row in here], names)
        order = np.lexsort((samples[here], problem_of, run_of[here]))
        _refuse_twice(table, texts, here[order], np.stack([run_of[here], problem_of, samples[here]])[:, order])
        counts = np.zeros((len(runs), len(names)), dtype=np.int64)
        np.add.at(counts, (run_of[here], problem_of), 1)
        complete = _complete(table, place, counts, runs, names, notes)
        kept = here[order][complete[problem_of[order]]].reshape(len(runs), complete.sum(), -1)
        for run, rows in zip(runs, kept, strict=True):
            said = tuple(responses[row] for row in rows.flat) if responses else ()
            is_told = len(set(said)) > 1  # by responses; one placeholder for all of them tells nothing
            shared = values[rows].tobytes() if is_told else _distinctive(values[rows])
            answers[run][place] = Answers(values[rows], (shared, *said) if shared else (run, place))
        problems[place.problem_set] = int(complete.sum())
    methods = dict.fromkeys(texts["method"])
    scored = {
        wanted: [ScoredRun(seed, answers[method, seed]) for method, seed in sorted(runs) if method == wanted]
        for wanted in methods
    }
    notes += _without_spread(scored, places)
    asked = sorted({*zip(*(texts[name] for name in ("problem", *PLACES) if name in texts), strict=True)})
    digest = blake2b(json.dumps(asked).encode(), digest_size=8).hexdigest()
    return Scores(scored, list[Place](places), sum(problems.values()), notes, digest)


def _distinctive(values: np.ndarray) -> bytes | None:
    """The [problems, samples] values as what two equal runs share; None where another run could have them by chance."""
    right = values.mean(axis=1)
    chance = values.shape[1] * np.log(right**2 + (1 - right) ** 2).sum()
    return values.tobytes() if chance < np.log(COINCIDENCE) else None


def _without_spread(runs: Mapping[str, Sequence[ScoredRun]], places: Sequence[Place]) -> list[str]:
    """Warns about places where the runs of a method differ by no more than their samples."""
    known = {
        place: beyond_sampling([np.stack([run.answers[place].correct for run in of]) for of in runs.values()])
        for place in places
    }
    alike = [str(place) for place, score in known.items() if score is not None and score < BEYOND_SAMPLING]
    warning = (
        f"At {'; '.join(alike)}, the seeds of a method differ by no more than their samples explain. If `seed` numbers "
        f"evaluations of one trained model, no verdict speaks of other trainings; give each training run a seed of its "
        f"own."
    )
    return [warning] if alike else []


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


def _complete(
    table: ResultTable,
    place: TablePlace,
    counts: np.ndarray,
    runs: Sequence[tuple[str, int]],
    problems: Sequence[str],
    notes: list[str],
) -> np.ndarray:
    """[problems] whether all runs have as many samples of each; adds a note of those that are left out.

    Raises UserError if they are too many.
    """
    usual = int(np.median(counts[counts > 0]))
    complete = np.asarray((counts == usual).all(axis=0))
    if complete.all():
        return complete
    run, problem = np.argwhere(counts != usual)[0]
    (method, seed), samples = runs[run], counts[run, problem]
    at = f" at {place}" if any(vars(place).values()) else ""
    lacking = (
        f"method {method}, seed {seed} has {samples} samples of problem {problems[problem]}{at}, others have {usual}"
    )
    if complete.mean() < LEAST_COMPLETE:
        raise UserError(
            f"{table.name}: {lacking}; give every run the same problems and samples, or leave out what is not complete"
        )
    notes.append(
        f"{(~complete).sum()} of {len(problems)} problems{at} are left out in all rows, as not every run has all "
        f"samples of them: {lacking}."
    )
    return complete
