"""Tables of any trainer's results: a row for each response, with the columns method, seed, problem, sample and value.

`value` is from 0 to 1, 1 for a right answer. A seed is a training run, not an evaluation. Further columns are read if
they are there: `set`, the problem set; `decoding`, how it was sampled; and `response`, its text, by which methods that
answered just the same are known. The order of columns and rows is free, other columns are passed over.
"""

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import NoReturn, TypeVar

import numpy as np
import pandas
from pyarrow import ArrowException

from rlzoo.comparing.finished_runs import FinishedRun
from rlzoo.comparing.results import Answers, Place, ScoredRun, SetDecoding, TablePlace, set_of
from rlzoo.errors import UserError, nearest, one_line
from rlzoo.evaluation.evaluate import Evaluation
from rlzoo.files import encoded, file_written_atomically
from rlzoo.statistics.spread import BEYOND_SAMPLING, beyond_sampling

T = TypeVar("T")
NEEDED = ("method", "seed", "problem", "sample", "value")
PLACES = ("set", "decoding")
RESPONSE = "response"
UNTRAINED = "untrained"
"""The method that is the model before training: a reference, and no competitor."""
SUFFIXES = (".csv", ".parquet")
_LARGEST_SEED = 2**53
TRUTH = {"true": "1", "false": "0"}
ANALYSES = "analyses"
"""What the number of interim analyses is called in a parquet file's metadata."""
_MOST_ANALYSES = 1000
LEAST_COMPLETE = 0.9
"""The share of the problems that all runs have to have answered in full; the others are then left out."""
COINCIDENCE = 1e-9
"""The chance of answers that agree everywhere below which two methods with the same values are one."""


@dataclass(frozen=True)
class ResultTable:
    """Rows of one response each."""

    name: str
    """For messages: the file."""
    frame: pandas.DataFrame
    analyses: int = 1
    """How many interim analyses of the runs that wrote it there were."""

    def where(self, row: int) -> str:
        """What a message calls a row, counted from 1."""
        return f"{self.name}, row {row + 1}"

    def column(self, name: str) -> "pandas.Series[str]":
        """Its texts. Raises UserError for one that is empty."""
        given = self.frame[name]
        texts = given.astype(object).where(given.notna(), "").map(lambda value: str(value).strip())
        for row in np.flatnonzero(texts == "")[:1]:
            self._refuse(row, f"{name} is empty", f"give each response its {name}")
        return texts

    def seeds(self) -> np.ndarray:
        """[rows]. Raises UserError for what is not a whole number, or so large that a float may stand for another."""
        texts, remedy = self.column("seed"), "number the runs of a method 0, 1, 2, ..."
        numbers = pandas.to_numeric(texts, errors="coerce").to_numpy(dtype=np.float64)
        for row in np.flatnonzero(~(np.isfinite(numbers) & (numbers == np.round(numbers))))[:1]:
            self._refuse(row, f"seed {texts[row]!r} is not a whole number", remedy)
        for row in np.flatnonzero(np.abs(numbers) >= _LARGEST_SEED)[:1]:
            self._refuse(row, f"seed {texts[row]} is too large to be told from the next", remedy)
        return numbers.astype(np.int64)

    def values(self) -> np.ndarray:
        """[rows]. Raises UserError for what is no number from 0 to 1."""
        texts = self.column("value")
        told = texts.map(lambda text: TRUTH.get(text.lower(), text))
        numbers = pandas.to_numeric(told, errors="coerce").to_numpy(dtype=np.float64)
        for row in np.flatnonzero(~np.isfinite(numbers))[:1]:
            self._refuse(
                row, f"value {texts[row]!r} is not a number", "write 1 for a right answer and 0 for a wrong one"
            )
        for row in np.flatnonzero((numbers < 0) | (numbers > 1))[:1]:
            self._refuse(row, f"value {texts[row]} is not from 0 to 1", "scale rewards so that 1 is the best")
        return numbers

    def _refuse(self, row: int, problem: str, remedy: str) -> NoReturn:
        raise UserError(f"{self.where(row)}: {problem}; {remedy}")


# ---- from files and from Python --------------------------------------------------------------------------------------


def is_result_table(word: str) -> bool:
    """Whether a word of the command line names one."""
    return word.lower().endswith(SUFFIXES)


def read_result_table(path: Path) -> ResultTable:
    """The table in a CSV or parquet file. Raises UserError if it cannot be read, or lacks a column."""
    if not path.is_file():
        raise UserError(f"{path} is not there; name a CSV or parquet file with the columns {', '.join(NEEDED)}")
    analyses: object = 1
    try:
        if path.suffix.lower() == ".csv":
            kind = "CSV in UTF-8"
            with warnings.catch_warnings(action="error", category=pandas.errors.ParserWarning):  # fields too many
                frame = pandas.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig", index_col=False)
        else:
            kind = "parquet"
            stored = pandas.read_parquet(path, engine="pyarrow")
            frame = stored.astype(object).reset_index(drop=True)
            analyses = stored.attrs.get(ANALYSES)
    except (ArrowException, OSError, ValueError, OverflowError, LookupError, pandas.errors.ParserWarning) as error:
        raise UserError(f"{path} cannot be read as {kind}: {one_line(error)}; write it again") from None
    counted = analyses if type(analyses) is int and 1 <= analyses <= _MOST_ANALYSES else 1
    return _checked(ResultTable(str(path), frame, counted))


def as_result_table(given: object, name: str = "the table") -> ResultTable:
    """The table in a frame, in columns by name, or in a list of rows by name. Raises UserError for anything else."""
    is_rows = isinstance(given, Sequence) and bool(given) and all(isinstance(row, Mapping) for row in given)
    if not is_rows and not isinstance(given, Mapping | pandas.DataFrame):
        kinds = "a pandas frame, a dictionary of columns, or a list of dictionaries"
        raise UserError(f"a {type(given).__name__} holds no results; give a folder, a file, {kinds}")
    try:
        frame = pandas.DataFrame(given).reset_index(drop=True)
    except ValueError as error:
        raise UserError(f"{name}: {one_line(error)}; each row is a response") from None
    return _checked(ResultTable(name, frame))


def _checked(table: ResultTable) -> ResultTable:
    names = [str(name).strip() for name in table.frame.columns]
    for column in NEEDED:
        if column not in names:
            others = ", ".join(names) or "nothing"
            raise UserError(
                f"{table.name} has no column {column!r}; it has {others}, and needs {', '.join(NEEDED)}, a row for "
                f"each response{nearest(column, names)}"
            )
    if twice := [name for name in (*NEEDED, *PLACES, RESPONSE) if sum(it in (name, f"{name}.1") for it in names) > 1]:
        raise UserError(f"{table.name} has several columns {twice[0]!r}; leave one of them")
    if table.frame.empty:
        raise UserError(f"{table.name} has no rows; it needs one for each response")
    return replace(table, frame=table.frame.set_axis(names, axis=1))


# ---- of finished runs ------------------------------------------------------------------------------------------------


def write_answers(path: Path, runs: Mapping[str, Sequence[FinishedRun]], baseline: str, analyses: int = 1) -> None:
    """Writes a result table in parquet: the answers of runs, by method, to held-out problems after the last step.

    The method UNTRAINED has those before the first step, from the runs of the baseline. Who judges the table again
    corrects for the same number of `analyses`.
    """
    evaluated = [
        (name, run.config.seed, at, evaluation)
        for name, of_row in runs.items()
        for run in of_row
        for at, evaluation in run.evaluations.items()
    ]
    evaluated += [
        (UNTRAINED, run.config.seed, at, Evaluation.load(run.folder.evaluations(at)[0]))
        for run in runs[baseline]
        for at in run.decodings
        if at in run.evaluations and all(0 in it.folder.evaluations(at) for it in runs[baseline])
    ]
    frames = [_answers(*it) for it in evaluated]
    frame = pandas.concat(frames).astype(dict.fromkeys(_NAMED, "category"))
    frame.attrs[ANALYSES] = analyses
    with file_written_atomically(path) as file:
        frame.to_parquet(file, index=False, compression="zstd")


_NAMED = ("method", "set", "decoding", "problem")


def _answers(method: str, seed: int, at: Place, evaluation: Evaluation) -> pandas.DataFrame:
    decoding = str(at.alone if isinstance(at, SetDecoding) else at)
    problems = [encoded(record["problem"]).decode() for record in evaluation.records]
    samples = np.tile(np.arange(evaluation.samples), len(problems) // evaluation.samples)
    columns = {"method": method, "seed": seed, "set": set_of(at) or "held out", "decoding": decoding}
    value = evaluation.column("correct").ravel()
    return pandas.DataFrame({**columns, "problem": problems, "sample": samples, "value": value})


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

    asked: Sequence[str] = ()
    """Digests of all problems and of those of each place, also of problems that are left out."""
    untrained: Sequence[ScoredRun] = ()
    """The model before training, unless it is the baseline or alone."""

    @property
    def analysed(self) -> dict[str, list[int]]:
        """The seeds of each method, by names that it has in every table of these problems, or of those of a place."""
        seeds = {method: [run.seed for run in runs] for method, runs in self.runs.items()}
        return {json.dumps([method, asked]): seeds[method] for method in seeds for asked in self.asked}


def scores_of(table: ResultTable, baseline: str = "") -> Scores:
    """Runs and what they scored, on the problems that all of them have answered in full.

    Raises UserError if these are too few.
    """
    values, seeds = table.values(), table.seeds()
    texts = {name: table.column(name).tolist() for name in (*NEEDED[:4], *PLACES) if name in table.frame}
    of_rows = [
        TablePlace(*place) for place in zip(*(texts.get(name, [""] * len(values)) for name in PLACES), strict=True)
    ]
    place_of, places = _codes(of_rows)
    run_of, runs = _codes(list(zip(texts["method"], seeds.tolist(), strict=True)))
    samples, _ = _codes(texts["sample"])
    answers: dict[tuple[str, int], dict[Place, Answers]] = {run: {} for run in runs}
    problems: dict[str, int] = {}
    responses = list(map(str, table.frame[RESPONSE])) if RESPONSE in table.frame else []
    notes = list[str]()
    for number, place in enumerate(places):
        here = np.flatnonzero(place_of == number)
        problem_of, names = _codes(asked := [texts["problem"][row] for row in here], sorted({*asked}, key=_natural))
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
    untrained = scored.pop(UNTRAINED, ()) if baseline != UNTRAINED and len(scored) > 1 else ()
    notes += _without_spread(scored, places)
    every = sorted({*zip(*(texts[name] for name in ("problem", *PLACES) if name in texts), strict=True)})
    of_places = ([row for row in every if row[1:] == place] for place in dict.fromkeys(row[1:] for row in every))
    digests = dict.fromkeys(map(_digest, (every, *of_places)))
    return Scores(scored, list[Place](places), sum(problems.values()), notes, [*digests], untrained)


def _digest(asked: Sequence[tuple[str, ...]]) -> str:
    return blake2b(json.dumps(asked).encode(), digest_size=8).hexdigest()


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


def _natural(text: str) -> list[tuple[int, str]]:
    """A key that sorts `p2` before `p10`."""
    return [(len(digits.lstrip("0")), digits or others) for digits, others in re.findall(r"(\d+)|(\D+)", text)]


def _codes(values: Sequence[T], order: Sequence[T] = ()) -> tuple[np.ndarray, list[T]]:
    """[rows] where each value stands among the distinct ones, and these, in an order or else that of the table."""
    numbers = {value: number for number, value in enumerate(order or dict.fromkeys(values))}
    return np.array([numbers[value] for value in values], dtype=np.int64), list(numbers)


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
