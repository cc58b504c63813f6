"""The rows of a dataset: their files, what they ask, and which of their columns hold the question and the answer.

Files are read as they stand: JSON lines, JSON, CSV and parquet, and the first three gzipped. No type is guessed. A text
stays the text that it is, whatever it looks like; a cell of CSV is a text; an integer has any number of digits, and any
other number prints as it was written. Rows are read one after another, so that a file of any length takes little
memory; a list in JSON is read whole as text.

A prompt is chat messages in the shapes that trainers' data have, or text that a chat template has made.
"""

import base64
import codecs
import csv
import gzip
import io
import itertools
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from rlzoo.config.sections import ColumnsConfig
from rlzoo.errors import UserError, nearest, one_line
from rlzoo.files import DEEPEST, encoding_of, nesting
from rlzoo.hub import expect_no_hub_without_a_network
from rlzoo.tasks.base import FORMATS, ZIPPED, format_of
from rlzoo.tasks.text import Prompt, asked, goes_on, is_rendered, last_boxed

CONVERSATIONS = ("messages", "conversations")
"""Columns that hold what was said on both sides, as data for supervised training have it."""
MEDIA = ("image", "images", "video", "videos")
"""Columns of what stands at the `<image>` and `<video>` of a prompt, which no model here reads."""
CHOICES = ("choices", "options")
"""Columns of the answers to choose from."""
TOOLS = "tools"
"""The column of tools that a row brings itself, as TRL's data may; it is not read."""
_PLACE_OF_MEDIA = re.compile("<(?:image|video)>")
_NO_TEXT = "has a message whose content is no text"
_MESSAGES_AS_TEXT = re.compile(r"""\s*\[\s*\{\s*["'](?:role|content)["']\s*:.*\}\s*\]\s*""", re.DOTALL)
_HASHES = re.compile(r"####\s*\S")


def prompt_of(value: Any, is_rendered: Callable[[str], bool] = is_rendered) -> Prompt:
    """Chat messages; plain text only where a chat template has been applied already. Raises ValueError."""
    if isinstance(value, str) and _MESSAGES_AS_TEXT.fullmatch(value):
        raise ValueError("has text that spells chat messages; save them as a list, in jsonl or parquet")
    messages = [{"role": "user", "content": value}] if isinstance(value, str) else value
    if messages and not _are_messages(messages):
        raise ValueError("has a question that is neither text nor chat messages")
    if not messages:
        raise ValueError("has no question")
    read = [_message(message) for message in messages]
    read = read[:-1] if goes_on(read) and not read[-1]["content"] else read  # nothing begun is nothing to go on with
    if not read or not asked(read).strip():
        raise ValueError("has no question")
    if len(read) == 1 and is_rendered(read[0]["content"]):
        return read[0]["content"]
    return read


def _are_messages(value: Any) -> bool:
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return is_list and all(isinstance(message, Mapping) for message in value)


def _message(given: Mapping[str, Any]) -> dict[str, Any]:
    """What a message says, as text, and what else it has; tables fill in what it has not by null."""
    if not isinstance(role := given.get("role"), str) or not role:
        raise ValueError("has a message without a role")
    others = {key: value for key, value in given.items() if value is not None and key not in ("role", "content")}
    return {"role": role, "content": _text(given.get("content")), **others}


def _text(content: Any) -> str:
    """Of a message, which may be in parts."""
    if isinstance(content, str | None):
        return content or ""
    parts = content if _are_messages(content) else [{}]
    texts = [part.get("text") for part in parts if part.get("type", "text") == "text"]
    if len(texts) < len(parts) or not all(isinstance(text, str) for text in texts):
        raise ValueError(_NO_TEXT)
    return "".join(map(str, texts))


def check_text_alone(prompt: Prompt, row: "Row") -> None:
    """Raises ValueError for a prompt with a place for an image or a video that the row has."""
    texts = [prompt] if isinstance(prompt, str) else [message["content"] for message in prompt]
    if any(map(_PLACE_OF_MEDIA.search, texts)) and any(is_given(row.get(name)) for name in MEDIA):
        raise ValueError(_NO_TEXT)


def is_given(value: Any) -> bool:
    """Whether a cell has anything in it: no empty text or list, and no list or object of nothing else."""
    if isinstance(value, str):
        return value.strip() not in ("", "[]", "{}", "null", "None")
    if isinstance(value, Mapping):
        return any(map(is_given, value.values()))
    return any(map(is_given, value)) if isinstance(value, list | tuple) else bool(value)


def parted(prompt: Prompt, column: str) -> tuple[Prompt, str | None]:
    """The prompt, and the solution that stood behind it; None if there is none.

    The model goes on with words of its own that end a prompt. In a column of whole conversations, or where they hold an
    answer, they are the solution.
    """
    if isinstance(prompt, str) or not goes_on(prompt) or len(prompt) == 1:
        return prompt, None
    *before, last = prompt
    text = last["content"]
    is_solution = column.lower() in CONVERSATIONS or last_boxed(text) or _HASHES.search(text)
    return (before, text) if is_solution else (prompt, None)


Row = Mapping[str, Any]

AT_ONCE = 1000
"""Rows of parquet that are read together, which takes a fraction of reading each by itself."""
_LONGEST_INTEGER = 4000
"""Digits. Python refuses to read longer ones than 4,300; they stay text."""

csv.field_size_limit(min(sys.maxsize, 2**31 - 1))


class Written(float):
    """A number that prints as it was written: 1.10 is no 1.1, and 1e400 is not infinite on paper."""

    def __new__(cls, text: str) -> "Written":
        """Of its text."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    text: str

    def __repr__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[type["Written"], tuple[str]]:
        return Written, (self.text,)


SPELLED: Mapping[type, tuple[str, Callable[[Any], str], Callable[[str], Any]]] = {
    Written: ("number", repr, Written),
    Decimal: ("decimal", str, Decimal),
    bytes: ("bytes", lambda it: base64.b64encode(it).decode(), lambda it: base64.b64decode(it, validate=True)),
    date: ("date", date.isoformat, date.fromisoformat),
    datetime: ("datetime", datetime.isoformat, datetime.fromisoformat),
    time: ("time", time.isoformat, time.fromisoformat),
}
"""Types of values in files that JSON lacks: a name, how one is written down as text, and how it is read again."""


@dataclass(frozen=True)
class Rows:
    """The rows of a split, which can be read again and again."""

    column_names: Sequence[str]
    count: Callable[[], int]
    read: Callable[[Sequence[str]], Iterator[Row]]
    """Reads the columns of these names of each row, from the first to the last; what a row lacks is None."""


class NamedTwice(ValueError):
    """A column is there twice, and one of the two would be lost."""


def rows_of(files: Sequence[Path]) -> Rows:
    """The rows of files, one after another. Raises NamedTwice, and other errors where a file is damaged."""
    parts = [_READERS[str(format_of(file))](file) for file in files]
    return Rows(
        tuple(dict.fromkeys(chain.from_iterable(part.column_names for part in parts))),
        lambda: sum(part.count() for part in parts),
        lambda chosen: chain.from_iterable(part.read(chosen) for part in parts),
    )


def _json(file: Path) -> Rows:
    names = tuple(dict.fromkeys(chain.from_iterable(_json_objects(file))))

    def read(chosen: Sequence[str]) -> Iterator[Row]:
        return ({name: row.get(name) for name in chosen} for row in _json_objects(file))

    return Rows(names, lambda: _json_count(file), read)


def _json_count(file: Path) -> int:
    full = (line for line in _lines(file) if line.strip())
    first = next(full, "")
    return 1 + sum(1 for _ in full) if _is_object(first) else sum(1 for _ in _json_objects(file))


def _csv(file: Path) -> Rows:
    header, _ = _csv_rows(file)
    return Rows(header, lambda: sum(1 for _ in _csv_rows(file)[1]), lambda chosen: _of_csv(file, chosen))


def _parquet(file: Path) -> Rows:
    import pyarrow.parquet

    table = pyarrow.parquet.ParquetFile(file)
    names = table.schema_arrow.names
    _refuse_twice(names)
    return Rows(tuple(names), lambda: int(table.metadata.num_rows), lambda chosen: _parquet_rows(file, chosen))


_READERS = {"json": _json, "csv": _csv, "parquet": _parquet}


def _of_csv(file: Path, chosen: Sequence[str]) -> Iterator[Row]:
    return ({name: row.get(name) for name in chosen} for row in _csv_rows(file)[1])


def _parquet_rows(file: Path, chosen: Sequence[str]) -> Iterator[Row]:
    import pyarrow.parquet

    table = pyarrow.parquet.ParquetFile(file)
    there = [name for name in chosen if name in table.schema_arrow.names]
    missing = dict.fromkeys(name for name in chosen if name not in there)
    if not there:
        yield from (dict(missing) for _ in range(table.metadata.num_rows))
        return
    for batch in table.iter_batches(AT_ONCE, columns=there):
        columns = [_values(column) for column in batch.columns]
        for values in zip(*columns, strict=True):
            yield {**dict(zip(there, values, strict=True)), **missing}


def _values(column: Any) -> list[Any]:
    """As Python has them; single precision with the digits that it has, so that 0.1 is not 0.10000000149011612."""
    import pyarrow.compute

    kind, types = column.type, pyarrow.types
    values: list[Any]
    if not _has_single(kind):
        values = column.to_pylist()
    elif types.is_dictionary(kind):
        values = _values(column.dictionary_decode())
    elif types.is_struct(kind):
        names = [field.name for field in kind]
        _refuse_twice(names)
        members = zip(*map(_values, column.flatten()), strict=True)
        rows = zip(column.is_valid().to_pylist(), members, strict=True)
        values = [dict(zip(names, row, strict=True)) if is_there else None for is_there, row in rows]
    elif types.is_nested(kind):
        lengths = pyarrow.compute.list_value_length(column).to_pylist()
        flat = iter(_values(column.flatten()))
        values = [None if length is None else list(itertools.islice(flat, length)) for length in lengths]
    else:
        values = [None if text is None else Written(text) for text in column.cast(pyarrow.string()).to_pylist()]
    return values


def _has_single(kind: Any) -> bool:
    """Whether a type is a number of single or half precision, or has such numbers in it."""
    import pyarrow

    types = pyarrow.types
    if types.is_dictionary(kind):
        return _has_single(kind.value_type)
    if types.is_struct(kind) or types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return any(_has_single(kind.field(place).type) for place in range(kind.num_fields))
    return bool(types.is_float32(kind) or types.is_float16(kind))


def _lines(file: Path) -> Iterator[str]:
    """Lines with their ends. Raises UnicodeDecodeError, which says the row, where one is no UTF-8."""
    with _opened(file) as beginning:
        marks = beginning.read(len(codecs.BOM_UTF16_LE))
    with _opened(file) as raw, io.TextIOWrapper(raw, encoding_of(marks), newline="\n") as text:
        try:
            for line in text:
                if len(line) > 2 * DEEPEST and nesting(line.encode()) > DEEPEST:
                    raise ValueError(f"a line is nested deeper than {DEEPEST}; flatten it: {line[:50]}")
                yield line
        except UnicodeDecodeError as error:
            error.reason = f"row {_row_that_is_no_text(file)}"
            raise


def _opened(file: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(file)) if file.suffix == ZIPPED else file.open("rb")


def _row_that_is_no_text(file: Path) -> int:
    """Whose bytes are no UTF-8, counted from 1; 0 if it is not to be found."""
    with _opened(file) as lines:
        for number, line in enumerate(lines, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return 0


def _csv_rows(file: Path) -> tuple[tuple[str, ...], Iterator[Row]]:
    reader = csv.reader(_lines(file), strict=True)
    header = tuple(next(reader, ()))
    _refuse_twice(header)

    def rows() -> Iterator[Row]:
        for cells in reader:
            if cells and len(cells) != len(header):
                raise ValueError(f"line {reader.line_num} has {len(cells)} cells, and the header has {len(header)}")
            if cells:
                yield dict(zip(header, cells, strict=True))

    return header, rows()


def _json_objects(file: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file that has one a line, or else a list of them, or one after another."""
    lines = _lines(file)
    before, first = next(((number, line) for number, line in enumerate(lines) if line.strip()), (0, ""))
    if not _is_object(first):
        yield from _objects_in(first + "".join(lines), before)
        return
    decode: Callable[[str, int], tuple[Any, int]] = _DECODER.scan_once  # type: ignore[attr-defined]  # no layers
    for number, line in enumerate(chain([first], lines), before + 1):
        try:
            value, end = decode(line, 0)
        except (StopIteration, ValueError):  # said below
            value, end = None, 0
        if type(value) is dict and line[end:] in ("\n", "") and "\\u" not in line:
            yield value
        elif line.strip():
            yield _object_of(line, number)


def _is_object(line: str) -> bool:
    """Whether a line is a whole object, so that each line is one."""
    try:
        return line.lstrip().startswith("{") and isinstance(_DECODER.decode(line), dict)
    except json.JSONDecodeError:
        return False
    except ValueError:
        return True


def _object_of(line: str, number: int) -> dict[str, Any]:
    try:
        value = _DECODER.decode(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"JSON parse error: line {number}, column {error.colno}: {error.msg}") from None
    except NamedTwice as error:
        raise NamedTwice(f"line {number} {error}") from None
    return _checked(value, line, f"line {number}")


def _objects_in(text: str, before: int) -> Iterator[dict[str, Any]]:
    """Those of a list, or one after another; `before` is how many lines are before the text."""
    is_list = text.lstrip().startswith("[")
    gap = re.compile(r"[\s,]*" if is_list else r"\s*")
    place = text.index("[") + 1 if is_list else 0
    if nesting(text.encode(errors="replace")) > DEEPEST:
        raise ValueError(f"it is nested deeper than {DEEPEST}; flatten it")
    count = 0
    while (place := _end(gap, text, place)) < len(text) and not (is_list and text[place] == "]"):
        count += 1
        try:
            value, end = _DECODER.raw_decode(text, place)
        except json.JSONDecodeError as error:
            raise ValueError(f"JSON parse error: line {before + error.lineno}: {error.msg}") from None
        except NamedTwice as error:
            raise NamedTwice(f"object {count} {error}") from None
        yield _checked(value, text[place:end], f"object {count}")
        place = end
    if is_list and text[place:].strip() != "]":
        raise ValueError("JSON parse error: the list does not end")


def _end(pattern: re.Pattern[str], text: str, place: int) -> int:
    match = pattern.match(text, place)
    return match.end() if match else place


def _checked(value: Any, text: str, place: str) -> dict[str, Any]:
    """The value, which must be an object whose characters are whole."""
    if not isinstance(value, dict):
        raise ValueError(f"{place} is no object with a question and an answer")
    if "\\ud" in text or "\\uD" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError(f"{place} has half of a character, which no file can hold") from None
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, none of whose names is there twice."""
    value = dict(pairs)
    if len(value) < len(pairs):
        _refuse_twice([name for name, _ in pairs])
    return value


def _refuse_twice(names: Sequence[str]) -> None:
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise NamedTwice(f"names the column {twice!r} twice, and one would be lost; rename one of them or take it out")


def _integer(text: str) -> int | str:
    return int(text) if len(text) <= _LONGEST_INTEGER else text


_DECODER = json.JSONDecoder(
    object_pairs_hook=_once, parse_float=Written, parse_int=_integer, parse_constant=Written, strict=False
)


def read_line(line: str) -> Any:
    """The JSON of a line as a file of rows has it: numbers as written, no name twice. Raises ValueError."""
    try:
        return _DECODER.decode(line)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def spelled_line(value: Any) -> str:
    """The JSON of what `read_line` has read, with numbers as they were written."""
    if isinstance(value, Mapping):
        members = [f"{spelled_line(name)}: {spelled_line(member)}" for name, member in value.items()]
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(spelled_line, value)) + "]"
    return repr(value) if isinstance(value, Written) else json.dumps(value, ensure_ascii=False)


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
        if not any(True for _ in rows.read(rows.column_names[:1])):
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
        _refuse_outside(path, itertools.chain.from_iterable((builder.config.data_files or {}).values()))
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


def _refuse_outside(folder: Path, files: Iterable[str]) -> None:
    """Raises ValueError for a file of a folder that lies elsewhere, as its README.md may say."""
    for file in files:
        place = Path(os.path.normpath(file.rpartition("::")[2]))
        if not any(place.is_relative_to(it) for it in (folder.absolute(), folder.resolve())):
            raise ValueError(f"its README.md names {file}, which lies outside of it; give that file itself")


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
    )


def _loaded(rows: "Dataset") -> Iterator[Mapping[str, Any]]:
    """Row by row; images and videos as they are stored, so that none is decoded."""
    names, stored = rows.column_names, rows.with_format("arrow")
    others = rows.select_columns([name for name in names if name not in MEDIA])
    for start in range(0, len(rows), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        read = others[part]
        media = {} if len(read) == len(names) else stored[part]
        columns = {name: read[name] if name in read else media[name].to_pylist() for name in names}
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
    except UserError:
        raise
    except NamedTwice as error:
        raise UserError(f"{split} {error}") from None
    except UnicodeDecodeError as error:
        recoded = f"iconv -f latin1 -t utf8 {split.source} > recoded{path.suffix}"
        if path.suffix == ZIPPED:
            recoded = f"gzip -dc {split.source} | iconv -f latin1 -t utf8 > recoded{Path(path.stem).suffix}"
        raise UserError(f"{split} is not in UTF-8 ({error.reason}); recode it, for example: {recoded}") from None
    except Exception as error:
        reason = one_line(error.__cause__ or error)
        raise UserError(f"{split} cannot be read or is empty: {reason or type(error).__name__}") from error


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
        lower = {name.lower(): name for name in names} | {name: name for name in names}
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

    def read(self, names: Sequence[str]) -> list[str]:
        """Those, of all of these names, that a problem is made of where no reward asks for the whole row."""
        wanted = (self.question, self.answer, "data_source", *MEDIA, TOOLS)
        return [name for name in dict.fromkeys(wanted) if name is not None and name in names]

    def choices(self, names: Sequence[str], chosen: ColumnsConfig) -> str:
        """The column of answers to choose from, which no model would see, unless columns were chosen; "" if none."""
        is_chosen = chosen.question or chosen.answer or self.answer == "reward_model"
        return "" if is_chosen else next((name for name in names if name.lower() in CHOICES), "")

    def reduced(self, row: Row) -> Row:
        """The row; of images, videos and tools it has only whether there are any."""
        unread = row.keys() & {*MEDIA, TOOLS} - {self.question, self.answer}
        return (
            row if not unread else {name: is_given(value) if name in unread else value for name, value in row.items()}
        )

    def answer_in(self, row: Mapping[str, Any]) -> Any:
        """The answer as the row has it, None if it has none. Raises ValueError for what is no place of one."""
        if self.answer is None:
            return None
        value = row[self.answer]
        if self.answer != "reward_model":
            return value
        if isinstance(value, str) and value.lstrip().startswith("{"):
            raise ValueError("has a reward_model that is text; save it as an object, in jsonl or parquet")
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
