"""The rows of a dataset, and which of their columns hold the question and the answer."""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlzoo.config import ColumnsConfig
from rlzoo.errors import UserError, nearest, one_line
from rlzoo.files import DEEPEST, nesting
from rlzoo.hub import expect_no_hub_without_a_network
from rlzoo.tasks.base import FORMATS
from rlzoo.tasks.prompts import CONVERSATIONS

if TYPE_CHECKING:  # a grader's process has no use for it
    from datasets import Dataset

QUESTIONS = ("question", "problem", "prompt", "query", "quiz", "messages")
ANSWERS = ("answer", "final_answer", "ground_truth", "expected_answer", "solution_text_format", "solution", "target")

AT_ONCE = 1000
"""Rows that are read together, which takes a fraction of reading each by itself."""


@dataclass(frozen=True)
class Split:
    """Where problems come from, and the two keys that say so."""

    key: str
    source: str
    split_key: str
    split: str

    def __str__(self) -> str:
        return f"{self.key}={self.source} ({self.split_key}={self.split})"


def read_rows(split: Split) -> "Dataset":
    """The rows of a split: of a file (where the split may be a slice such as `train[:100]`), a folder, or a hub id."""
    path = Path(split.source).expanduser()
    if path.is_file() and not path.stat().st_size:
        raise UserError(f"{split} is empty")
    with _reading(split) as datasets:
        if path.is_file():
            name = re.split(r"\W", split.split)[0]
            rows = datasets.load_dataset(FORMATS[path.suffix], data_files={name: str(path)}, split=split.split)
        else:
            rows = datasets.load_dataset(*_place(split.source), split=split.split)
    if not len(rows):
        raise UserError(f"{split} is empty")
    return rows


def in_order(rows: "Dataset", split: Split) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows with their numbers, from 1, read many at a time. Raises UserError where their text is not UTF-8."""
    number = 0
    try:
        for start in range(0, len(rows), AT_ONCE):
            for number, row in enumerate(_some(rows, start), start + 1):
                yield number, row
    except UnicodeDecodeError:
        suffix = Path(split.source).suffix
        recoded = f"iconv -f latin1 -t utf8 {split.source} > recoded{suffix}"
        raise UserError(f"{split} is not in UTF-8 (row {number + 1}); recode it, for example: {recoded}") from None


def _some(rows: "Dataset", start: int) -> Iterator[Mapping[str, Any]]:
    """The rows from one on, as many as are read at once; one by one where one of them cannot be read."""
    some = range(start, min(start + AT_ONCE, len(rows)))
    try:
        columns = rows[some.start : some.stop]
    except UnicodeDecodeError:
        yield from (rows[number] for number in some)
        return
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def split_names(split: Split) -> list[str]:
    """The splits that there are of a folder or a hub id."""
    with _reading(split) as datasets:
        return list(datasets.get_dataset_split_names(*_place(split.source)))


def _place(source: str) -> tuple[str, str | None]:
    """What `datasets` calls it: path or hub id, and configuration."""
    path = Path(source).expanduser()
    if path.is_dir():
        return str(path.absolute()), None
    name, _, configuration = source.partition(":")
    return name, configuration or None


@contextmanager
def _reading(split: Split) -> Iterator[Any]:
    """The package, silenced: one clear error comes from here instead of a log and a bar from there."""
    path = Path(split.source).expanduser()
    if path.suffix in FORMATS and not path.exists():
        raise UserError(f"{split}: there is no such file")
    _check_nesting(split, path)
    if not path.exists():
        expect_no_hub_without_a_network()  # before `datasets` is imported, which asks once
    import datasets

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(logging.CRITICAL)
    try:
        yield datasets
    except Exception as error:
        reason = one_line(error.__cause__ or error)
        raise UserError(f"{split} cannot be read or is empty: {reason or type(error).__name__}") from error


def _check_nesting(split: Split, path: Path) -> None:
    """Refuses JSON on this machine that is nested so deep that reading it would crash the reader, and the process."""
    files = (
        [path]
        if path.is_file()
        else sorted(file for file in path.rglob("*") if file.is_file())
        if path.is_dir()
        else []
    )
    for file in files:
        if FORMATS.get(file.suffix) == "json":
            with file.open("rb") as lines:
                for number, line in enumerate(lines, 1):
                    if nesting(line) > DEEPEST:
                        raise UserError(f"{split}: {file} line {number} is nested deeper than {DEEPEST}; flatten it")


@dataclass(frozen=True)
class Columns:
    """Which columns hold the question and the answer of a row; with `task.reward` there may be no answer."""

    question: str
    answer: str | None

    @classmethod
    def of(cls, names: Sequence[str], split: Split, chosen: ColumnsConfig, needs_answer: bool = True) -> "Columns":
        """Those that are chosen, or else found by name; capitals do not matter. Verl's schema comes first."""
        for key in ("question", "answer"):
            column = getattr(chosen, key)
            if column and column not in names:
                there = nearest(column, names) or f"; it has {', '.join(names)}"
                raise UserError(f"task.columns.{key}={column} is no column of {split}{there}")
        is_verl = "prompt" in names and "reward_model" in names and not (chosen.question or chosen.answer)
        if is_verl:
            return cls("prompt", "reward_model")
        lower = {name.lower(): name for name in names}
        questions = [chosen.question] if chosen.question else [lower[name] for name in QUESTIONS if name in lower]
        answers = [chosen.answer] if chosen.answer else [lower[name] for name in ANSWERS if name in lower]
        answers = answers or [name for name in questions[:1] if name.lower() in CONVERSATIONS]  # its last message
        if not questions or (needs_answer and not answers):
            raise UserError(
                f"{split} has the columns {', '.join(names)}; it needs prompt and reward_model (verl's schema), or "
                f"a question ({', '.join(QUESTIONS)}) and an answer ({', '.join(ANSWERS)}); "
                f"task.columns.question= and task.columns.answer= name others"
            )
        return cls(questions[0], answers[0] if answers else None)

    def read(self, rows: "Dataset") -> list[str]:
        """The columns that a problem is made of where no reward asks for the whole row."""
        wanted = (self.question, self.answer, "data_source")
        return [name for name in dict.fromkeys(wanted) if name is not None and name in rows.column_names]

    def answer_in(self, row: Mapping[str, Any]) -> Any:
        """The answer as the row has it, None if it has none. Raises ValueError for what is no place of one."""
        if self.answer is None:
            return None
        value = row[self.answer]
        if self.answer != "reward_model":
            return value
        if not isinstance(value, Mapping | None):
            raise ValueError("has a reward_model without ground_truth")
        return (value or {}).get("ground_truth")


def plain(value: Any) -> Any:
    """A row's value as JSON can keep it: what else there is, dates for example, becomes text."""
    if isinstance(value, Mapping):
        return {str(key): plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
