"""The leaderboard as tables, and where they are shown: terminal, Markdown, CSV and page."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas
from markupsafe import Markup
from rich.console import Console
from rich.text import Text

from rlzoo.comparing.leaderboard import Leaderboard, LeaderboardRow, Touched
from rlzoo.comparing.results import Place, SetDecoding, TablePlace
from rlzoo.errors import printable
from rlzoo.files import write_text
from rlzoo.report import leaderboard_figures as figures
from rlzoo.report import leaderboard_sentences as sentences
from rlzoo.report import leaderboard_statistics as declared
from rlzoo.report.formatting import interval, signed
from rlzoo.report.leaderboard_sentences import verdict_words
from rlzoo.report.leaderboard_statistics import (
    ACCURACIES,
    BY_TOKENS,
    REWARDS,
    Statistic,
    Value,
    values,
)
from rlzoo.report.table import (
    MARKDOWN,
    PAGE,
    TERMINAL,
    Cell,
    Column,
    Shown,
    Table,
    breakable,
    code,
    in_markdown,
    in_one_line,
    plain_console,
    templates,
)
from rlzoo.statistics.intervals import Estimate
from rlzoo.statistics.verdicts import Measured

TOUCHED = "What each part touched"
SHARES = (
    "Shares of the response tokens and, below, of the advantage mass that they carry, in %; means over steps and seeds."
)

WRITTEN = ("leaderboard.md", "leaderboard.csv", "leaderboard.html", "leaderboard.png")
"""The files of a leaderboard in its folder."""


# ---- tables ----------------------------------------------------------------------------------------------------------


def results_table(board: Leaderboard, decoding: Place) -> Table:
    """Accuracies, differences to the baseline and verdicts with one decoding."""
    is_ablation, on_paper = any(row.name.without for row in board.rows), frozenset({MARKDOWN, PAGE})
    columns = [
        Column("objective", is_text=True),
        Column("without", is_text=True, kind="without", shown_on=on_paper if is_ablation else frozenset()),
        Column(f"avg@{board.samples_at[decoding]}", order="descending" * (decoding == board.decodings[0])),
        Column("difference", kind="difference"),
        Column("mean reward", shown_on=frozenset({TERMINAL, *on_paper}) if board.rewards else frozenset()),
        Column("verdict", is_text=True, width=len("distinguishable"), kind="verdict"),
        Column("by seed", is_text=True, kind="seeds", shown_on=on_paper),
    ]
    foot: list[list[Shown]] = []
    if start := board.untrained.get(decoding):
        seeds = " ".join(f"{100 * mean:.1f}" for mean in start)
        foot = [[Cell(figures.UNTRAINED, kind="soft"), "", f"{100 * board.start(decoding):.1f}", "-", "", "", seeds]]
    rows = [_result(board, row, decoding) for row in board.rows]
    return Table(columns, rows, foot, title=str(decoding), kind="results")


def _result(board: Leaderboard, row: LeaderboardRow, decoding: Place) -> list[Shown]:
    result, difference = row.results[decoding], row.results[decoding].difference
    verdict, reward = result.average.verdict, REWARDS.value(board, row, decoding)
    return [
        _named(board, row, row.name.before_without),
        Cell(row.name.without, is_code=True),
        Cell(f"{100 * result.accuracy.mean:.1f}", interval(result.accuracy), value=result.accuracy.mean),
        Cell(signed(difference), interval(difference), value=difference.mean) if difference else Cell("-", value=0),
        replace(_figure(reward, REWARDS), notes=(), kind=""),
        Cell(verdict_words(verdict), kind=f"{verdict.finding.value}{' claim' * verdict.is_claim}"),
        " ".join(f"{100 * mean:.1f}" for mean in result.average.by_seed),
    ]


def _named(board: Leaderboard, row: LeaderboardRow, shown: object = None) -> Cell:
    """The name of a row; on a page with its color, and below it how else it is called."""
    html = named(board, row, shown)
    if shown is not None and row.name.without:
        html += Markup('<span class="without-here">without {}</span>').format(breakable(row.name.without))
    if shown is not None and row.name.alias:
        html += Markup('<span class="asked">{}</span>').format(breakable(row.name.alias))
    return Cell(str(row.name), is_code=True, html=html)


def named(board: Leaderboard, row: LeaderboardRow, shown: object = None) -> Markup:
    """The element of a row's name, in its color."""
    stroke = figures.strokes(board.rows)[row.identity]
    return Markup(_macros("swatch.html").named(stroke, figures.SYMBOLS[stroke.marker], breakable(shown or row.name)))


def _macros(template: str) -> Any:
    return templates().get_template(template).module


def statistics_table(
    statistics: Sequence[Statistic], board: Leaderboard, decoding: Place, title: str = ""
) -> Table | None:
    """A column for each statistic, or for each of its places; what no row has is left out. None where nothing is."""
    known = [column for statistic in statistics for column in _columns(statistic, board, decoding)]
    if not known:
        return None
    rows = [[_named(board, row), *(cells[place] for _, cells in known)] for place, row in enumerate(board.rows)]
    return Table([Column("objective", is_text=True), *(column for column, _ in known)], rows, title=title)


def _columns(statistic: Statistic, board: Leaderboard, decoding: Place) -> list[tuple[Column, list[Cell]]]:
    by_row, k = values(statistic, board, decoding), board.samples_at[decoding]
    places = dict.fromkeys(place for value in by_row if isinstance(value, Mapping) for place in value)
    if all(value is None for value in by_row):
        return []
    if not places:
        return [(Column(statistic.heading.format(k=k)), [_figure(value, statistic) for value in by_row])]
    maps = [value if isinstance(value, Mapping) else {} for value in by_row]
    return [
        (
            Column(f"{statistic.heading}{place}"),
            [_figure(of_row.get(place), statistic) for of_row in maps],
        )
        for place in places
    ]


def _figure(value: Value, statistic: Statistic) -> Cell:
    if isinstance(value, Measured):
        words = verdict_words(value.verdict, _scale(statistic.name))
        compared = [_compared(value.difference, statistic), words] if value.difference else []
        kind = "claim" if value.verdict.is_claim else ""
        return replace(_figure(value.estimate, statistic), notes=compared, kind=kind)
    if isinstance(value, Estimate):
        return Cell(statistic.write(value.mean), _ends(value, statistic), value=value.mean)
    if isinstance(value, Mapping) or value is None:
        return Cell("-", value=-1.0)
    return Cell(statistic.write(value), value=float(value))


def _scale(name: str) -> int:
    """Of the margin of a statistic's verdicts: points, but of rewards as they are."""
    return 1 if name == REWARDS.name else 100


def _ends(estimate: Estimate, statistic: Statistic) -> str:
    return f"[{statistic.write(estimate.low)}, {statistic.write(estimate.high)}]"


def _compared(difference: Estimate, statistic: Statistic) -> str:
    sign = "+" * (not statistic.write(difference.mean).startswith("-"))
    return f"{sign}{statistic.write(difference.mean)} {_ends(difference, statistic)}"


def touched_table(board: Leaderboard) -> Table:
    """What each part touched in each row: the share of the tokens, and below it of the advantage mass."""
    parts = sorted({part for of_row in board.touched.values() for part in of_row})
    columns = [Column(part, kind="share", is_code=True) for part in parts]
    rows: list[list[Shown]] = []
    for row in board.rows:
        shares = board.touched[row.identity]
        rows.append([_named(board, row), *(_share(shares.get(part)) for part in parts)])
    return Table([Column("objective", is_text=True), *columns], rows, title=TOUCHED)


def _share(touched: Touched | None) -> Cell:
    """Darker for more tokens, and yet to be seen for one in a thousand."""
    if touched is None:
        return Cell("", value=-1)
    shade = round(24 * touched.tokens**0.3) if 0 <= touched.tokens <= 1 else 0  # a file may say what is no share
    background = f"color-mix(in srgb, currentColor {shade}%, transparent)"
    notes = [f"{100 * touched.mass:.3g}"]
    return Cell(f"{100 * touched.tokens:.3g}", notes=notes, value=touched.tokens, background=background)


# ---- where they are shown --------------------------------------------------------------------------------------------


def show_leaderboard(board: Leaderboard, output: Path, quiet: bool = False) -> None:
    """Writes it into the folder `output` as a page, a picture, Markdown and CSV, and prints it."""
    console = plain_console(quiet)
    text, values, web_page, picture = (output / name for name in WRITTEN)
    write_text(text, markdown(board))
    write_text(values, comma_separated(board))
    write_text(web_page, page(board))
    untrained = {str(place): start for place, start in board.untrained.items()}
    figures.draw_leaderboard(picture, board.title, frames(board), untrained)
    print_leaderboard(board, console)
    beside = ".png, .md, .csv and every answer in answers.parquet" if board.is_trained else ".png, .md and .csv"
    console.print(Text(f"everything: {web_page}, and beside it {beside}"), soft_wrap=True)


def print_leaderboard(board: Leaderboard, console: Console) -> None:
    """The first decoding as a table, what may be claimed, and what is to be known; the page has the rest."""
    console.print(results_table(board, board.decodings[0]))
    for line in (*sentences.headlines(board), *sentences.notes(board)):
        console.print(Text(printable(line)))


def _said(board: Leaderboard) -> list[str]:
    summary = f"{sentences.summary(board)}."
    return [*sentences.headlines(board), summary, *sentences.planning(board), *sentences.notes(board)]


def frames(board: Leaderboard) -> dict[str, pandas.DataFrame]:
    """The records of each decoding, for pictures."""
    every, rows = pandas.DataFrame(records(board)).fillna(math.nan), len(board.rows)
    return {str(place): every[rows * i : rows * (i + 1)] for i, place in enumerate(board.decodings)}


def markdown(board: Leaderboard) -> str:
    """Everything but curves and responses; what decides is a table, the rest is folded."""
    blocks = [f"# {in_markdown(board.title)}", *map(in_markdown, _said(board))]
    for decoding in board.decodings:
        blocks += [f"## {in_markdown(str(decoding))}", results_table(board, decoding).markdown()]
        for title, statistics in declared.BY_DECODING.items():
            if table := statistics_table(statistics, board, decoding):
                blocks += [f"<details><summary>{title}</summary>", table.markdown(), "</details>"]
    for title, statistics in declared.BY_ROW.items():
        if table := statistics_table(statistics, board, board.decodings[0]):
            blocks += [f"## {title}", table.markdown()]
            blocks += map(in_markdown, sentences.accuracy_by_tokens(board) if title == BY_TOKENS else ())
    if board.is_trained:
        blocks += [f"## {TOUCHED}", SHARES, touched_table(board).markdown()]
    setting = [f"- {in_markdown(name)}: {code(value)}" for name, value in board.setting.items()]
    setting += [f"- {in_markdown(name)}: {', '.join(map(code, each))}" for name, each in board.environment.items()]
    blocks += ["## Setting", "\n".join(setting)]
    commands = [f"    {in_one_line(row.training.command)}" for row in board.rows if row.training]
    return "\n\n".join([*blocks, *(["## Commands", "\n".join(commands)] if commands else [])]) + "\n"


def page(board: Leaderboard) -> str:
    """One HTML page that needs nothing else: no network, no fonts, no library. What others wrote is escaped."""
    differences = {
        at: figures.differences_figure(frame, f"differences {number}")
        for number, (at, frame) in enumerate(zip(board.decodings, frames(board).values(), strict=True), 1)
    }
    return (
        templates()
        .get_template("page.html")
        .render(
            board=board,
            sentences=sentences,
            results={decoding: results_table(board, decoding) for decoding in board.decodings},
            statistics={
                decoding: [
                    (title, table)
                    for title, statistics in declared.BY_DECODING.items()
                    if (table := statistics_table(statistics, board, decoding, f"{title} at {decoding}"))
                ]
                for decoding in board.decodings
            },
            by_row=[
                (title, table)
                for title, statistics in declared.BY_ROW.items()
                if (table := statistics_table(statistics, board, board.decodings[0], title))
            ],
            by_tokens=BY_TOKENS,
            touched=touched_table(board) if board.is_trained else None,
            touched_words=(TOUCHED, SHARES),
            named=named,
            differences=differences,
            curves=figures.learning_curves(board) if board.is_trained else (),
        )
    )


# ---- records ---------------------------------------------------------------------------------------------------------


def comma_separated(board: Leaderboard) -> str:
    """One line for each row and decoding, with a column for each seed; shares and accuracies from 0 to 1."""
    return Table.of_records(records(board)).csv()


def records(board: Leaderboard) -> list[dict[str, object]]:
    """The figures of each row and decoding, all with the same names; None where a row has none.

    Where only results are known, figures that no row has are left out.
    """
    rows = [_record(board, row, decoding) for decoding in board.decodings for row in board.rows]
    names = dict.fromkeys(name for row in rows for name, value in row.items() if board.is_trained or value is not None)
    return [{name: row.get(name) for name in names} for row in rows]


def _record(board: Leaderboard, row: LeaderboardRow, decoding: Place) -> dict[str, object]:
    tables = [[ACCURACIES], *declared.BY_DECODING.values(), *declared.BY_ROW.values()]
    figures: dict[str, object] = {}
    for statistic in (statistic for table in tables for statistic in table):
        figures |= _figures(statistic.name, statistic.value(board, row, decoding), row)
    return {
        "objective": printable(str(row.name)),
        "without": printable(row.name.without),
        **_place(decoding),
        "seeds": " ".join(map(str, row.seeds)),
        **figures,
        **({"command": printable(row.training.command)} if row.training else {}),
    }


def _place(place: Place) -> dict[str, object]:
    if isinstance(place, TablePlace):
        return {"problem_set": printable(place.problem_set), "decoding": printable(place.decoding)}
    problem_set = place.problem_set if isinstance(place, SetDecoding) else "held out"
    return {"problem_set": problem_set, "temperature": place.temperature, "top_p": place.top_p}


def _figures(name: str, value: Value, row: LeaderboardRow) -> dict[str, object]:
    if isinstance(value, Measured):
        return {**_figures(name, value.estimate, row), **_difference(name, value), **_by_seed(name, value, row)}
    if isinstance(value, Estimate):
        return {name: value.mean, f"{name}_low": value.low, f"{name}_high": value.high}
    if isinstance(value, Mapping):
        return {f"{name}{place}".replace(" ", "_"): number for place, number in value.items()}
    return {} if value is None and name.endswith("_") else {name: value}


def _difference(name: str, measured: Measured) -> dict[str, object]:
    prefix, difference = "" if name == ACCURACIES.name else f"{name}_", measured.difference
    planned = difference if difference and difference.is_planned else None
    return {
        f"{prefix}difference": difference and difference.mean,
        f"{prefix}difference_low": difference and difference.low,
        f"{prefix}difference_high": difference and difference.high,
        f"{prefix}difference_alone_low": difference and difference.alone.low,
        f"{prefix}difference_alone_high": difference and difference.alone.high,
        f"{prefix}p_page": difference and difference.p_value,
        f"{prefix}detectable": planned and planned.detectable,
        f"{prefix}seeds_needed": planned and planned.seeds_needed,
        f"{prefix}verdict": verdict_words(measured.verdict, _scale(name)),
    }


def _by_seed(name: str, measured: Measured, row: LeaderboardRow) -> dict[str, object]:
    return {f"{name}_seed_{seed}": mean for seed, mean in zip(row.seeds, measured.by_seed, strict=True)}
