"""A table as CSV that is data: read by commas, a spreadsheet finds no formula, and a terminal nothing that steers."""

import csv
import io
import re
from collections.abc import Iterable

from rlzoo.errors import printable

_FORMULA = ("=", "+", "-", "@", "\t")
_NUMBER = re.compile(r"[+-][\d.]+(e[+-]\d+)?")


def csv_text(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A line of heads, and one for each row."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_cell(value) for value in row] for row in (heads, *rows))
    return text.getvalue()


def _cell(value: object) -> object:
    """Text that a spreadsheet would take for a formula has an apostrophe before it, as spreadsheets write it."""
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text
