"""The leaderboard on the terminal, and in the files of its folder."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rlzoo.comparing.leaderboard import Leaderboard
from rlzoo.comparing.problem_sets import Place
from rlzoo.errors import printable
from rlzoo.files import write_text
from rlzoo.report.board_sentences import faster_or_higher, headlines, notes, planning, summary
from rlzoo.report.board_statistics import BY_DECODING, BY_ROW, Column, Statistic, columns
from rlzoo.report.console import plain_console
from rlzoo.report.formatting import folded, percent, points
from rlzoo.report.leaderboard_csv import comma_separated
from rlzoo.report.leaderboard_markdown import markdown
from rlzoo.report.page import page
from rlzoo.report.picture import draw_leaderboard
from rlzoo.report.verdict_words import verdict_words

OTHER_COLUMNS, NARROWEST = 50, 24
"""Characters that the terminal's table needs beside the names, and that these get at least."""
WIDEST = (10, 15)
"""Characters of a line in a heading, and in the figures below it."""


def show_leaderboard(board: Leaderboard, output: Path, quiet: bool = False) -> None:
    """Writes it into the folder `output` as a page, a picture, Markdown and CSV, and prints it."""
    console = plain_console(quiet)
    write_text(output / "leaderboard.md", markdown(board))
    write_text(output / "leaderboard.csv", comma_separated(board))
    write_text(output / "leaderboard.html", page(board))
    draw_leaderboard(output / "leaderboard.png", board)
    print_leaderboard(board, console)
    for name, kind in (("page", "html"), ("picture", "png"), ("table", "md"), ("", "csv")):
        console.print(Text(f"{name:<9}{output / f'leaderboard.{kind}'}"), soft_wrap=True)


def print_leaderboard(board: Leaderboard, console: Console) -> None:
    """Tables with intervals below their means; 80 columns are enough."""
    for decoding in board.decodings:
        console.print(_results(board, decoding, console.width))
        for statistics in BY_DECODING.values():
            _print_statistics(statistics, board, decoding, console)
    for statistics in BY_ROW.values():
        _print_statistics(statistics, board, board.decodings[0], console)
    for line in (*faster_or_higher(board), *headlines(board), f"{summary(board)}.", *planning(board), *notes(board)):
        console.print(Text(printable(line)))


def _results(board: Leaderboard, decoding: Place, width: int) -> Table:
    names = max(NARROWEST, width - OTHER_COLUMNS)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title=str(decoding), title_justify="left", title_style="bold")
    table.add_column("objective", overflow="fold", max_width=names)
    for heading in (f"avg@{board.samples_at[decoding]}", "difference"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", min_width=len("distinguishable"), max_width=len("distinguishable"))
    for row in board.rows:
        result = row.results[decoding]
        table.add_row(
            Text(folded(printable(str(row.name)), names)),
            percent(result.accuracy).replace(" ", "\n", 1),
            points(result.difference).replace(" ", "\n", 1),
            verdict_words(result.average.verdict),
            style="bold" if result.average.verdict.is_claim else "",
        )
    if decoding in board.untrained:
        table.add_row("untrained model", f"{100 * board.start(decoding):.1f}", "-", "", style="dim")
    return table


def _print_statistics(statistics: Sequence[Statistic], board: Leaderboard, decoding: Place, console: Console) -> None:
    """As many tables as the columns need, one below the other."""
    left = columns(statistics, board, decoding)
    while left:
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        table.add_column("objective", overflow="fold", max_width=NARROWEST)
        shown, room = list[Column](), console.width - NARROWEST - 2
        while left and (not shown or room >= _width(left[0])):
            room -= _width(left[0])
            shown.append(left.pop(0))
            table.add_column(fill(shown[-1].heading, WIDEST[0], break_long_words=False), justify="right", no_wrap=True)
        for row, *cells in zip(board.rows, *(column.cells for column in shown), strict=True):
            name = Text(folded(printable(str(row.name)), NARROWEST))
            table.add_row(name, *("\n".join(map(_in_lines, cell.lines)) for cell in cells))
        console.print(table)


def _width(column: Column) -> int:
    texts = [
        fill(column.heading, WIDEST[0], break_long_words=False),
        *(_in_lines(line) for cell in column.cells for line in cell.lines),
    ]
    return 2 + max(len(line) for text in texts for line in text.split("\n"))


def _in_lines(text: str) -> str:
    """With an interval on a line of its own."""
    return "\n".join(folded(part, WIDEST[1]) for part in text.replace(" [", "\n[").split("\n"))
