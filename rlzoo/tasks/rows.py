"""The rows of a dataset, and which of their columns hold the question and the answer."""

import itertools
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlzoo.config import ColumnsConfig
from rlzoo.errors import UserError, nearest, one_line
from rlzoo.hub import expect_no_hub_without_a_network
from rlzoo.tasks.base import FORMATS, format_of
from rlzoo.tasks.data_files import AT_ONCE, SPELLED, FurtherColumns, NamedTwice, Rows, rows_of
from rlzoo.tasks.prompts import CONVERSATIONS

if TYPE_CHECKING:  # a grader's process has no use for it
    from datasets import Dataset

QUESTIONS = ("question", "problem", "prompt", "query", "quiz", "messages")
ANSWERS = ("answer", "final_answer", "ground_truth", "expected_answer", "solution_text_format", "solution", "target")

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Split:
    """Where problems come from, and the two keys that say so."""

    key: str
    source: str
    split_key: str
    split: str

    def __str__(self) -> str:
        return f"{self.key}={self.source} ({self.split_key}={self.split})"


def read_rows(split: Split) -> Rows:
    """The rows of a split: of a file (where the split may be a slice such as `train[:100]`), a folder, or a hub id."""
    path = Path(split.source).expanduser()
    with _reading(split):
        rows = _rows(split, path)
        try:
            is_empty = not any(True for _ in rows.read(rows.column_names[:1]))
        except FurtherColumns:
            is_empty, rows = False, rows.whole()
        if is_empty:
            raise UserError(f"{split} is empty")
        return rows


def _rows(split: Split, path: Path) -> Rows:
    name = re.split(r"\W", split.split)[0]
    if path.is_file():
        return _sliced(rows_of([path]), split.split, name)
    datasets = _datasets()
    place = _place(split.source)
    if path.is_dir():
        builder = datasets.load_dataset_builder(*place)
        if builder.info.builder_name in FORMATS.values():
            files = builder.config.data_files
            if name not in files:
                raise ValueError(f"Unknown split {name!r}. Should be one of {list(files)}")
            paths = [Path(file) for file in files[name]]
            if all(map(format_of, paths)):  # others, such as .tsv, are read by `datasets`
                return _sliced(rows_of(paths), split.split, name)
    loaded = datasets.load_dataset(*place, split=split.split)
    _check_guessed(loaded, split)
    return loaded_rows(loaded)


def loaded_rows(loaded: "Dataset") -> Rows:
    """The rows of a dataset that is loaded already."""
    return Rows(loaded.column_names, lambda: len(loaded), lambda names: _loaded(loaded.select_columns(list(names))))


def _sliced(rows: Rows, written: str, name: str) -> Rows:
    """The part of the rows that the split names: `train[:80%]`, or several joined by `+`."""
    if written == name:
        return rows
    parts = _datasets().ReadInstruction.from_spec(written).to_absolute({name: rows.count()})
    ranges = [(part.from_, part.to) for part in parts]

    return Rows(
        rows.column_names,
        lambda: sum(end - start for start, end in ranges),
        lambda names: itertools.chain.from_iterable(
            itertools.islice(rows.read(names), start, end) for start, end in ranges
        ),
        lambda: _sliced(rows.whole(), written, name),
    )


def _loaded(rows: "Dataset") -> Iterator[Mapping[str, Any]]:
    for start in range(0, len(rows), AT_ONCE):
        columns = rows[start : start + AT_ONCE]
        for values in zip(*columns.values(), strict=True):
            yield dict(zip(columns, values, strict=True))


def _check_guessed(rows: "Dataset", split: Split) -> None:
    """What `datasets` makes of texts in JSON and CSV on the hub: refused where it changes them, else said."""
    kind = str(rows.info.builder_name)
    if kind not in ("json", "csv"):
        return
    types = {name: str(getattr(feature, "dtype", "string")) for name, feature in rows.features.items()}
    changed = [name for name, dtype in types.items() if re.match("timestamp|date|time", dtype)]
    remedy = f"download the file and give {split.key}=FILE, which is read as it stands"
    if changed:
        raise UserError(f"{split}: the package datasets makes dates of the texts in the column {changed[0]}; {remedy}")
    guessed = [name for name, dtype in types.items() if kind == "csv" and dtype not in ("string", "large_string")]
    if guessed:
        _logger.warning("%s: the package datasets makes numbers of texts in %s; %s", split, ", ".join(guessed), remedy)


def in_order(rows: Rows, names: Sequence[str], split: Split) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows, of each these columns, with their numbers from 1. Raises UserError for one that cannot be read."""
    with _reading(split):
        yield from enumerate(rows.read(names), 1)


def split_names(split: Split) -> list[str]:
    """The splits that there are of a folder or a hub id."""
    with _reading(split):
        return list(_datasets().get_dataset_split_names(*_place(split.source)))


def _place(source: str) -> tuple[str, str | None]:
    """What `datasets` calls it: path or hub id, and configuration."""
    path = Path(source).expanduser()
    if path.is_dir():
        return str(path.absolute()), None
    name, _, configuration = source.partition(":")
    return name, configuration or None


def _datasets() -> Any:
    """The package, silenced: one clear error comes from here instead of a log and a bar from there."""
    import datasets

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(logging.CRITICAL)
    return datasets


@contextmanager
def _reading(split: Split) -> Iterator[None]:
    """Whatever goes wrong is one clear error."""
    path = Path(split.source).expanduser()
    if format_of(path) and not path.exists():
        raise UserError(f"{split}: there is no such file")
    if not path.exists():
        expect_no_hub_without_a_network()  # before `datasets` is imported, which asks once
    try:
        yield
    except (UserError, FurtherColumns):
        raise
    except NamedTwice as error:
        raise UserError(f"{split} {error}") from None
    except UnicodeDecodeError as error:
        recoded = f"iconv -f latin1 -t utf8 {split.source} > recoded{path.suffix}"
        raise UserError(f"{split} is not in UTF-8 ({error.reason}); recode it, for example: {recoded}") from None
    except Exception as error:
        reason = one_line(error.__cause__ or error)
        raise UserError(f"{split} cannot be read or is empty: {reason or type(error).__name__}") from error


class NoColumn(UserError):
    """A column is not among those that are known."""


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
                raise NoColumn(f"task.columns.{key}={column} is no column of {split}{there}")
        is_verl = "prompt" in names and "reward_model" in names and not (chosen.question or chosen.answer)
        if is_verl:
            return cls("prompt", "reward_model")
        lower = {name.lower(): name for name in names} | {name: name for name in names}
        questions = [chosen.question] if chosen.question else [lower[name] for name in QUESTIONS if name in lower]
        answers = [chosen.answer] if chosen.answer else [lower[name] for name in ANSWERS if name in lower]
        answers = answers or [name for name in questions[:1] if name.lower() in CONVERSATIONS]  # its last message
        if not questions or (needs_answer and not answers):
            raise NoColumn(
                f"{split} has the columns {', '.join(names)}; it needs prompt and reward_model (verl's schema), or "
                f"a question ({', '.join(QUESTIONS)}) and an answer ({', '.join(ANSWERS)}); "
                f"task.columns.question= and task.columns.answer= name others"
            )
        return cls(questions[0], answers[0] if answers else None)

    def read(self, names: Sequence[str]) -> list[str]:
        """Those, of all of these names, that a problem is made of where no reward asks for the whole row."""
        wanted = (self.question, self.answer, "data_source")
        return [name for name in dict.fromkeys(wanted) if name is not None and name in names]

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
    """A row's value as records can keep it: what neither JSON nor SPELLED has becomes text."""
    if isinstance(value, Mapping):
        return {str(key): plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    kept = value is None or isinstance(value, bool | int | float | str) or type(value) in SPELLED
    return value if kept else str(value)
