"""Files of rows, read as they stand: JSON lines, JSON, CSV and parquet, and the first three gzipped.

No type is guessed. A text stays the text that it is, whatever it looks like; a cell of CSV is a text; an integer has
any number of digits, and any other number prints as it was written. Rows are read one after another, so that a file of
any length takes little memory; a list in JSON is read whole as text.
"""

import base64
import codecs
import csv
import gzip
import io
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, cast

from rlzoo.files import DEEPEST, nesting
from rlzoo.tasks.base import ZIPPED, format_of

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
    bytes: (
        "bytes",
        lambda value: base64.b64encode(value).decode(),
        lambda text: base64.b64decode(text, validate=True),
    ),
    date: ("date", date.isoformat, date.fromisoformat),
    datetime: ("datetime", datetime.isoformat, datetime.fromisoformat),
    time: ("time", time.isoformat, time.fromisoformat),
}
"""Types of values in files that JSON lacks: a name, how one is written down as text, and how it is read again."""


@dataclass(frozen=True)
class Rows:
    """The rows of a split, which can be read again and again."""

    column_names: Sequence[str]
    """Of JSON those of its first rows: where a later one has others, `read` raises FurtherColumns."""
    count: Callable[[], int]
    read: Callable[[Sequence[str]], Iterator[Row]]
    """Reads the columns of these names of each row, from the first to the last; what a row lacks is None."""
    wider: Callable[[], "Rows"] | None = None
    """Makes the same with the columns of all rows; None where these are known."""

    def whole(self) -> "Rows":
        """The rows with the columns of all of them, for which all may have to be read."""
        return self.wider() if self.wider else self


class FurtherColumns(Exception):
    """A row has columns that those before it lack."""


class NamedTwice(ValueError):
    """A column is there twice, and one of the two would be lost."""


def rows_of(files: Sequence[Path]) -> Rows:
    """The rows of files, one after another. Raises NamedTwice, and other errors where a file is damaged."""
    return _together([_READERS[str(format_of(file))](file) for file in files])


def _together(parts: Sequence[Rows]) -> Rows:
    return Rows(
        tuple(dict.fromkeys(chain.from_iterable(part.column_names for part in parts))),
        lambda: sum(part.count() for part in parts),
        lambda chosen: chain.from_iterable(part.read(chosen) for part in parts),
        lambda: _together([part.whole() for part in parts]),
    )


def _json(file: Path, names: Sequence[str] = ()) -> Rows:
    names = tuple(names or dict.fromkeys(chain.from_iterable(islice(_json_objects(file), AT_ONCE))))
    known = frozenset(names)

    def read(chosen: Sequence[str]) -> Iterator[Row]:
        for row in _json_objects(file):
            if not row.keys() <= known:
                raise FurtherColumns
            yield {name: row.get(name) for name in chosen}

    def wider() -> Rows:
        return _json(file, tuple(dict.fromkeys(chain.from_iterable(_json_objects(file)))))

    return Rows(names, lambda: _json_count(file), read, wider)


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
    for batch in table.iter_batches(AT_ONCE, columns=there):
        columns = [_values(column) for column in batch.columns]
        for values in zip(*columns, strict=True):
            yield {**dict(zip(there, values, strict=True)), **missing}


def _values(column: Any) -> list[Any]:
    """As Python has them; single precision with the digits that it has, so that 0.1 is not 0.10000000149011612."""
    import pyarrow

    if pyarrow.types.is_float32(column.type) or pyarrow.types.is_float16(column.type):
        return [None if text is None else Written(text) for text in column.cast(pyarrow.string()).to_pylist()]
    values: list[Any] = column.to_pylist()
    return values


def _lines(file: Path) -> Iterator[str]:
    """Lines with their ends. Raises UnicodeDecodeError, which says the row, where one is no UTF-8."""
    with _opened(file) as beginning:
        marks = beginning.read(len(codecs.BOM_UTF16_LE))
    wide = marks in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    with _opened(file) as raw, io.TextIOWrapper(raw, "utf-16" if wide else "utf-8-sig", newline="\n") as text:
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
