"""One table for every view: the terminal prints it, and Markdown, CSV and HTML pages hold it.

`console.print(table)`, `table.markdown()`, `table.csv()`, and `{{ table }}` in a template. Text is text in all of them:
what would steer a terminal, end a cell or begin an element is escaped here and nowhere else.
"""

import csv
import io
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from textwrap import fill
from typing import Any, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from rlzoo.errors import printable
from rlzoo.report.formatting import folded, pieces

TERMINAL, MARKDOWN, PAGE = "terminal", "markdown", "page"
EVERYWHERE = frozenset({TERMINAL, MARKDOWN, PAGE})
NARROWEST, NARROWER = 24, 12
"""Characters that the names get on a terminal at least, if they have as many, and other columns of text."""
HEADING, FIGURE = 10, 15
"""Characters of a line in the heading of figures, and in the figures below it, where a table would be too wide."""
STYLES = {"strong": "bold", "claim": "bold", "better": "bold", "worse": "bold", "soft": "dim"}
"""A word of a cell's kind, and its style on a terminal."""


@dataclass(frozen=True)
class Cell:
    """A figure or a text of a table."""

    text: str
    interval: str = ""
    """Stands behind the text, or below it where there is no room."""
    notes: Sequence[str] = ()
    """Further lines."""
    value: float | str | None = None
    """What the column is sorted by on a page, and what a CSV holds; None: the text."""
    kind: str = ""
    """Classes on a page; `strong` and `soft` are seen everywhere."""
    is_code: bool = False
    html: Markup | None = None
    """What a page shows instead of the text."""
    background: str = ""
    """A CSS color of the cell on a page."""


Shown: TypeAlias = Cell | str | float | bool | None


@dataclass(frozen=True)
class Column:
    """A column of figures, or of text if `is_text`."""

    heading: str
    is_text: bool = False
    width: int | None = None
    """Characters on a terminal at most."""
    is_whole: bool = False
    """Whether a terminal wraps none of its lines, as it wraps none of figures."""
    kind: str = ""
    """Classes of its cells on a page."""
    html: Markup | None = None
    """What a page shows instead of the heading, which then sorts nothing."""
    is_code: bool = False
    order: str = ""
    """`ascending` or `descending` if the rows are sorted by it."""
    shown_on: frozenset[str] = EVERYWHERE


@dataclass(frozen=True)
class Table:
    """Rows under headings; the first column names the rows."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Shown]]
    foot: Sequence[Sequence[Shown]] = ()
    """Rows that stand below the others, however these are sorted."""
    title: str = ""
    """Stands above it on a terminal; a screen reader reads it on a page."""
    kind: str = ""
    """Classes on a page."""

    @classmethod
    def of_records(cls, records: Sequence[Mapping[str, Any]], empty: Sequence[str] = ()) -> "Table":
        """Records with the same names; `empty` are the headings of a table without any."""
        return cls([Column(name) for name in (records[0] if records else empty)], [[*row.values()] for row in records])

    def seen(self, where: str) -> tuple[list[Column], list[list[Cell]], list[list[Cell]]]:
        """The columns, rows and foot that are shown there."""
        shown = [where in column.shown_on for column in self.columns]

        def chosen(rows: Sequence[Sequence[Shown]]) -> list[list[Cell]]:
            return [[_cell(cell) for cell, here in zip(row, shown, strict=True) if here] for row in rows]

        return [column for column in self.columns if where in column.shown_on], chosen(self.rows), chosen(self.foot)

    def markdown(self) -> str:
        """Lines of a Markdown table."""
        columns, rows, foot = self.seen(MARKDOWN)
        heads = [(code if column.is_code else in_markdown)(column.heading) for column in columns]
        lines = [heads, ["---"] * len(columns), *([_markdown_cell(cell) for cell in row] for row in (*rows, *foot))]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)

    def csv(self) -> str:
        """A line of headings, and one for each row; a spreadsheet finds no formula in it."""
        values = [[_csv_value(cell) for cell in row] for row in (*self.rows, *self.foot)]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([[_without_formula(column.heading) for column in self.columns], *values])
        return text.getvalue()

    def __html__(self) -> str:
        """The element of a page, whose headings sort it. Templates and `markupsafe` ask for it."""
        columns, rows, foot = self.seen(PAGE)
        return templates().get_template("table.html").render(table=self, columns=columns, rows=rows, foot=foot)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """One table, or several with some of the columns each, one below the other, if all are too wide."""
        columns, rows, foot = self.seen(TERMINAL)
        layouts = [_Layout(columns, [*rows, *foot], is_narrow) for is_narrow in (False, True)]
        layout = next((it for it in layouts if it.width <= options.max_width), layouts[-1])
        for number, part in enumerate(layout.parts(options.max_width)):
            yield layout.table(part, options.max_width, "" if number else self.title, len(rows))


def _cell(shown: Shown) -> Cell:
    if isinstance(shown, Cell):
        return shown
    if isinstance(shown, str) or shown is None:
        return Cell(shown or "")
    return Cell(str(shown) if isinstance(shown, bool) else f"{shown:g}", value=shown)


# ---- Markdown --------------------------------------------------------------------------------------------------------


def _markdown_cell(cell: Cell) -> str:
    text = code(cell.text) if cell.is_code and cell.text else in_markdown(cell.text)
    text = f"**{text}**" if "strong" in cell.kind.split() and text else text
    first = " ".join(filter(None, (text, in_markdown(cell.interval))))
    return "<br>".join([first, *map(in_markdown, cell.notes)])


_INTERVAL = re.compile(r"\\\[([-+\d.,%kMG ]+)\\\](?![(\[:])")
"""An escaped interval of figures, which is no link."""


def in_markdown(text: str) -> str:
    """Text as itself, in a line."""
    escaped = re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", in_one_line(text))
    return _INTERVAL.sub(r"[\1]", escaped)


def code(text: str) -> str:
    """Code in a cell: longer fences than any inside, no bars."""
    text = in_one_line(text).replace("|", "\u2502")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{text}{fence}" if fence == "`" else f"{fence} {text} {fence}"


def in_one_line(text: str) -> str:
    """Without line breaks, and without what cannot be seen."""
    return printable(re.sub(r"[^\S\u00a0]+", " ", text).strip(" "))


# ---- CSV -------------------------------------------------------------------------------------------------------------

_FORMULA = ("=", "+", "-", "@", "\t")
_NUMBER = re.compile(r"[+-][\d.]+(e[+-]\d+)?")


def _csv_value(shown: Shown) -> object:
    value = (shown.text if shown.value is None else shown.value) if isinstance(shown, Cell) else shown
    return _without_formula(value) if isinstance(value, str) else value


def _without_formula(text: str) -> str:
    """Text that a spreadsheet would take for a formula has an apostrophe before it, as spreadsheets write it."""
    text = printable(text)
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text


# ---- pages -----------------------------------------------------------------------------------------------------------


def templates() -> Environment:
    """The pages' templates. Whatever they are given is text, and is seen."""
    environment = Environment(
        loader=PackageLoader("rlzoo.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=lambda shown: printable(shown) if type(shown) is str else shown,
    )
    environment.globals |= {
        "breakable": breakable,
        "shortened": shortened,
        "own_scripts": partial(own_scripts, environment),
    }
    return environment


def own_scripts(environment: Environment) -> Markup:
    """The digests by which the policy of a page knows our scripts, so that a browser runs no other."""
    scripts = [environment.get_template(name).render().encode() for name in environment.list_templates(["js"])]
    return Markup(" ").join(Markup(f"'sha256-{b64encode(sha256(it).digest()).decode()}'") for it in scripts)


def breakable(expression: object) -> Markup:
    """An expression that may be broken between its words."""
    return Markup("<wbr>").join(escape(printable(piece)) for piece in pieces(str(expression)))


def shortened(text: str, longest: int) -> str:
    """The beginning and the end of a long text."""
    if len(text) <= longest:
        return text
    return f"{text[: longest // 2]} [... {len(text) - longest} characters ...] {text[-longest // 2 :]}"


# ---- the terminal ----------------------------------------------------------------------------------------------------


class PlainConsole(Console):
    """Prints text as it is, and what would steer a terminal as an escape."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, force_jupyter=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What is shown, cut where its style changes; the terminal's own codes are no text of these."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def plain_console(quiet: bool = False) -> Console:
    """Where everything is printed: a terminal, a pipe, or a notebook's cell, which gets the plain lines of a pipe."""
    return PlainConsole(quiet=quiet)


def pairs(lines: Iterable[tuple[str, str]], width: int = 0) -> RichTable:
    """What a line is about, in bold and at least `width` characters wide, and what it says."""
    table = RichTable.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, min_width=width, style="bold")
    table.add_column(overflow="fold")
    for label, text in lines:
        table.add_row(Text(printable(label)), Text(printable(text)))
    return table


class _Layout:
    """The lines of every cell on a terminal, and what of them fits; if `is_narrow`, with intervals below figures."""

    GAP, EDGES = 2, 2
    """Characters between columns, and at both ends of a row."""

    def __init__(self, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], is_narrow: bool) -> None:
        self.columns, self.rows, self.is_narrow = columns, rows, is_narrow
        self.widths = [self._width(place) for place in range(len(columns))]

    @property
    def width(self) -> int:
        """Of the whole table, its texts folded as far as they may be."""
        return self._sum(range(len(self.columns)))

    def _sum(self, places: Sequence[int], widths: Sequence[int] = ()) -> int:
        widths = widths or self.widths
        return sum(widths[place] for place in places) + self.GAP * (len(places) - 1) + self.EDGES

    def _longest(self, place: int) -> int:
        """The longest line of a column, nothing folded."""
        column = self.columns[place]
        texts = [self._heading(column), *(self._figure(row[place], column) for row in self.rows)]
        return max((len(line) for text in texts for line in text.split("\n")), default=0)

    def _width(self, place: int) -> int:
        column, longest = self.columns[place], self._longest(place)
        is_wrapped = column.is_text and not column.is_whole
        return min(longest, column.width or (NARROWER if place else NARROWEST)) if is_wrapped else longest

    def _heading(self, column: Column) -> str:
        is_folded = self.is_narrow and not column.is_text
        return fill(column.heading, HEADING, break_long_words=False) if is_folded else column.heading

    def _figure(self, cell: Cell, column: Column) -> str:
        """A cell's lines; those of figures are folded in a narrow table."""
        between = "\n" if self.is_narrow else " "
        lines = [between.join(filter(None, (cell.text, cell.interval))), *cell.notes]
        if self.is_narrow and not column.is_text:
            notes = [line.replace(" [", "\n[") for line in lines[1:]]
            lines = [folded(part, FIGURE) for line in (lines[0], *notes) for part in line.split("\n")]
        return printable("\n".join(lines))

    def parts(self, room: int) -> list[list[int]]:
        """The columns of each table, the first in all of them."""
        parts = [[0]]
        for place in range(1, len(self.columns)):
            if len(parts[-1]) > 1 and self._sum([*parts[-1], place]) > room:
                parts.append([0])
            parts[-1].append(place)
        return parts

    def table(self, part: Sequence[int], room: int, title: str, body: int) -> RichTable:
        """Some of the columns; `body` is how many rows stand above the foot."""
        heading = Text(printable(title)) if title else None
        table = RichTable(
            box=SIMPLE_HEAD,
            pad_edge=False,
            padding=(0, 1, 0, 0),
            title=heading,
            title_justify="left",
            title_style="bold",
        )
        code_width = max(NARROWEST, room - self._sum(part) + self.widths[part[0]])
        is_whole = self._sum(part, [self._longest(place) for place in range(len(self.columns))]) <= room
        for place in part:
            column = self.columns[place]
            heading = Text(printable(self._heading(column)))
            table.add_column(
                heading,
                justify="left" if column.is_text else "right",
                max_width=column.width if column.is_text and not is_whole else None,
                overflow="fold",
                no_wrap=column.is_whole or not column.is_text,
            )
        for number, row in enumerate(self.rows):
            if number == body:
                table.add_section()
            table.add_row(*(self._text(row[place], self.columns[place], code_width) for place in part))
        return table

    def _text(self, cell: Cell, column: Column, code_width: int) -> Text:
        text = self._figure(cell, column)
        style = next((STYLES[word] for word in cell.kind.split() if word in STYLES), "")
        return Text(folded(text, column.width or code_width) if cell.is_code and column.is_text else text, style)
