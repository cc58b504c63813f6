"""The leaderboard on the terminal, and in the files of its folder."""

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rlzoo.comparing.leaderboard import Leaderboard
from rlzoo.files import write_text
from rlzoo.report.console import plain_console
from rlzoo.report.leaderboard_csv import comma_separated
from rlzoo.report.leaderboard_markdown import markdown
from rlzoo.report.page import page
from rlzoo.report.picture import draw_leaderboard
from rlzoo.report.words import folded, headlines, percent, points, printable, summary

OTHER_COLUMNS, NARROWEST = 50, 24
"""Characters that the terminal's table needs beside the names, and that these get at least."""


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
    """A table for each decoding, with intervals below their means; 80 columns are enough."""
    width = max(NARROWEST, console.width - OTHER_COLUMNS)
    for decoding in board.decodings:
        table = Table(box=SIMPLE_HEAD, pad_edge=False, title=str(decoding), title_justify="left", title_style="bold")
        table.add_column("objective", overflow="fold", max_width=width)
        for heading in (f"avg@{board.samples_at[decoding]}", "difference"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("verdict", min_width=len("distinguishable"), max_width=len("distinguishable"))
        for row in board.rows:
            result = row.results[decoding]
            table.add_row(
                Text(folded(printable(row.objective), width)),
                percent(result.accuracy).replace(" ", "\n", 1),
                points(result.difference).replace(" ", "\n", 1),
                result.verdict,
                style="bold" if result.average.claim else "",
            )
        console.print(table)
    for line in (*headlines(board), f"{summary(board)}.", *board.planning, *board.notes):
        console.print(Text(printable(line)))
