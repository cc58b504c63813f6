"""One table says the same on a terminal, in Markdown, in CSV and on a page, and text in it is text."""

import csv
import io
from html.parser import HTMLParser

import pytest
from markupsafe import Markup

from rlzoo.errors import printable
from rlzoo.report.table import MARKDOWN, PAGE, Cell, Column, PlainConsole, Table, code, in_markdown, shortened

HOSTILE = "</td></tr></table><script>alert(1)</script>\"'>|`$x^2$[a](javascript:b)\n\x1b[31m\u202e\u2066\x00b"
WORDS = "not distinguishable"
NAME = "advantage_reweighting(alpha=0.1)+clip_higher-dynamic_sampling"


def figures(name: str = NAME, note: str = "too few seeds") -> Table:
    """Every kind of column and cell."""
    columns = [
        Column("objective", is_text=True),
        Column("avg@4", order="descending"),
        Column("difference to the baseline"),
        Column("verdict", is_text=True, width=15),
        *(Column(f"runs above {share} %") for share in range(10, 100, 10)),
        Column("plot", is_text=True, shown_on=frozenset({MARKDOWN, PAGE})),
    ]
    row: list[Cell | str] = [
        Cell(name, is_code=True),
        Cell("51.04", "[17.61, 83.82]", value=0.5104),
        Cell("-2.1", notes=[note]),
    ]
    row += [Cell("worse", kind="worse"), *map(str, range(101, 110)), Cell("│━●", html=Markup("<svg></svg>"))]
    return Table(columns, [row], [["untrained model", "7.25", *[None] * 12]], title=name)


def printed(table: Table, width: int) -> str:
    """What a terminal of so many columns shows."""
    console = PlainConsole(file=io.StringIO(), width=width)
    console.print(table)
    return console.file.getvalue()  # type: ignore[attr-defined]


class Elements(HTMLParser):
    """The tags, attributes and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.names: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.names += [name for name, _ in attributes]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_every_rendering_has_every_figure() -> None:
    table = figures()
    page = Elements(table.__html__())
    for shown in (printed(table, 80), printed(table, 400), table.markdown(), " ".join(page.texts)):
        for figure in ("51.04", "[17.61, 83.82]", "-2.1", "worse", *map(str, range(101, 110)), "7.25"):
            assert shown.split().count(figure) == 1 or figure in shown.replace("\n", " ")
    rows = list(csv.DictReader(io.StringIO(table.csv())))
    assert [row["objective"] for row in rows] == [NAME, "untrained model"]
    assert rows[0]["avg@4"] == "0.5104" and rows[1]["avg@4"] == "7.25" and rows[0]["runs above 90 %"] == "109"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_table_that_is_too_wide_becomes_several_with_the_names_in_each(width: int) -> None:
    lines = printed(figures(), width).splitlines()
    assert max(map(len, lines)) <= width
    heads = [line for line in lines if "objective" in line]
    assert len(heads) == sum("untrained model" in line for line in lines) > 1
    assert "objective" in printed(figures(), 400) and printed(figures(), 400).count("objective") == 1


def test_a_text_is_folded_only_where_the_table_is_too_wide() -> None:
    table = Table([Column("objective", is_text=True), Column("verdict", is_text=True, width=15)], [["grpo", WORDS]])
    assert WORDS in printed(table, 80) and WORDS not in printed(table, 30)
    assert printed(table, 30).split()[-3:] == ["grpo", *WORDS.split()]


def test_a_name_is_broken_between_its_words_only() -> None:
    lines = [line.split("  ")[0].strip() for line in printed(figures(), 60).splitlines() if line.startswith(" ")]
    pieces = [line for line in lines if line and line in NAME]
    assert NAME in "".join(pieces) and not any(piece[-1].isalnum() for piece in pieces if not NAME.endswith(piece))


def test_hostile_text_adds_no_element_no_cell_no_line_and_steers_no_terminal() -> None:
    plain, hostile = figures(), figures(HOSTILE, HOSTILE)
    harmless, attacked = Elements(plain.__html__()), Elements(hostile.__html__())
    assert set(attacked.tags) <= {*harmless.tags, "wbr"} and set(attacked.names) <= set(harmless.names)
    bars = [[line.replace("\\|", "").count("|") for line in it.markdown().splitlines()] for it in (plain, hostile)]
    assert bars[0] == bars[1]
    assert len(list(csv.reader(io.StringIO(hostile.csv())))) == 3
    for shown in (printed(hostile, 80), hostile.markdown(), hostile.csv(), hostile.__html__()):
        assert not {"\x1b", "\u202e", "\u2066", "\x00"} & set(shown) and "u202e" in shown


def test_a_spreadsheet_finds_no_formula() -> None:
    table = Table.of_records([{"=a": "=1+2", "b": "-2.5", "c": "@x", "d": -3.5, "e": None, "f": "+1e+05"}])
    assert table.csv() == "'=a,b,c,d,e,f\n'=1+2,-2.5,'@x,-3.5,,+1e+05\n"
    assert Table.of_records([], ["regime"]).csv() == "regime\n"
    formulas = ('=HYPERLINK("http://x")', "@SUM(1)", "+1+cmd|' /C calc'!A0", "-1+2", "\t=1")
    (heads, cells) = csv.reader(io.StringIO(Table([Column(it) for it in formulas], [formulas]).csv()))
    assert heads == cells == [f"'{printable(it)}" for it in formulas]


def test_in_markdown_an_interval_is_one_and_a_link_is_none() -> None:
    assert in_markdown("-2.1 [-100.0, 99.5]") == "-2.1 [-100.0, 99.5]"
    assert in_markdown("[1](javascript:b) [a][1] [2]: x") == r"\[1\](javascript:b) \[a\][1] \[2\]: x"
    assert code("a``b|c") == "``` a``b│c ```"


def test_what_sorts_a_column_of_a_page_is_its_value() -> None:
    text = figures().__html__()
    assert 'data-value="0.5104"' in text and 'aria-sort="descending"' in text and "<tfoot>" in text


def test_a_column_stands_only_where_it_is_to_be_shown() -> None:
    table = figures()
    assert "plot" in table.markdown() and "<svg></svg>" in table.__html__() and "plot" not in printed(table, 400)


def test_a_long_text_is_shortened_in_the_middle() -> None:
    assert shortened("short", 10) == "short"
    assert shortened("a" * 50 + "b" * 50, 20) == "a" * 10 + " [... 80 characters ...] " + "b" * 10
