"""The leaderboard as Markdown."""

import re
from collections.abc import Iterable, Sequence

from rlzoo.comparing.leaderboard import Leaderboard
from rlzoo.comparing.problem_sets import Place
from rlzoo.errors import printable
from rlzoo.report.board_sentences import faster_or_higher, headlines, notes, planning, summary
from rlzoo.report.board_statistics import BY_DECODING, BY_ROW, FASTER_OR_HIGHER, Statistic, columns
from rlzoo.report.forest import as_text, forest
from rlzoo.report.formatting import percent, points
from rlzoo.report.verdict_words import verdict_words


def markdown(board: Leaderboard) -> str:
    """Everything but curves and responses; what decides is a table, the rest is folded."""
    lines = [f"# {in_markdown(board.title)}", ""]
    for text in (*headlines(board), f"{summary(board)}.", *planning(board), *notes(board)):
        lines += [in_markdown(text), ""]
    for decoding in board.decodings:
        lines += [f"## {in_markdown(str(decoding))}", "", *_results(board, decoding), ""]
        for title, statistics in BY_DECODING.items():
            if table := _statistics(statistics, board, decoding):
                lines += [f"<details><summary>{title}</summary>", "", *table, "", "</details>", ""]
    for title, statistics in BY_ROW.items():
        if table := _statistics(statistics, board, board.decodings[0]):
            lines += [f"## {title}", "", *table, ""]
        if table and title == FASTER_OR_HIGHER:
            lines += [line for text in faster_or_higher(board) for line in (in_markdown(text), "")]
    if board.is_trained:
        lines += ["## What each part touched", "", "Shares of the tokens / of the advantage mass, in %.", ""]
        lines += [*_touched(board), ""]
    lines += ["## Setting", ""]
    lines += [f"- {in_markdown(name)}: {code(value)}" for name, value in board.setting.items()]
    lines += [f"- {in_markdown(name)}: {', '.join(map(code, each))}" for name, each in board.environment.items()]
    commands = [f"    {_one_line(row.training.command)}" for row in board.rows if row.training]
    lines += ["", *(["## Commands", "", *commands, ""] if commands else [])]
    return "\n".join(lines)


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Its lines."""
    return [f"| {' | '.join(cells)} |" for cells in (headings, ["---"] * len(headings), *rows)]


def _results(board: Leaderboard, decoding: Place) -> list[str]:
    drawn, rows = forest(board, decoding), []
    is_ablation = any(row.name.without for row in board.rows)
    for row in board.rows:
        result, name = row.results[decoding], row.name
        asked = f" ({in_markdown(name.alias)})" if name.alias else ""
        without = [code(name.without) if name.without else ""] * is_ablation
        plot = as_text(drawn.marks[row.identity], drawn.zero, row.is_baseline).replace(" ", "\u00a0")
        by_seed = " ".join(f"{100 * mean:.1f}" for mean in result.average.by_seed)
        verdict = verdict_words(result.average.verdict)
        cells = [percent(result.accuracy), points(result.difference), f"`{plot}`", verdict, by_seed]
        rows.append([code(name.before_without) + asked, *without, *cells])
    if start := board.untrained.get(decoding):
        by_seed = " ".join(f"{100 * mean:.1f}" for mean in start)
        rows.append(
            ["untrained model", *[""] * is_ablation, f"{100 * board.start(decoding):.1f}", "-", "", "", by_seed]
        )
    low, high = 100 * drawn.scale.low, 100 * drawn.scale.high
    headings = [f"avg@{board.samples_at[decoding]}", "difference", f"{low:.1f} to {high:.1f}", "verdict", "by seed"]
    return markdown_table(["objective", *["without"] * is_ablation, *headings], rows)


def _statistics(statistics: Sequence[Statistic], board: Leaderboard, decoding: Place) -> list[str]:
    """Nothing where no row has a figure."""
    shown = columns(statistics, board, decoding)
    cells = [["<br>".join(cell.lines) for cell in column.cells] for column in shown]
    rows = [[code(str(row.name)), *row_cells] for row, *row_cells in zip(board.rows, *cells, strict=True)]
    return markdown_table(["objective", *(column.heading for column in shown)], rows) if shown else []


def _touched(board: Leaderboard) -> list[str]:
    touched = board.touched
    parts = sorted({part for of_row in touched.values() for part in of_row})
    rows = []
    for row in board.rows:
        of_row = touched[row.identity].items()
        shares = {part: f"{100 * share.tokens:.3g} / {100 * share.mass:.3g}" for part, share in of_row}
        rows.append([code(str(row.name)), *(shares.get(part, "") for part in parts)])
    return markdown_table(["objective", *map(code, parts)], rows)


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def in_markdown(text: str) -> str:
    """Text as itself, in a line."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", _one_line(text))


def code(text: str) -> str:
    """Code in a cell: longer fences than any inside, no bars."""
    text = _one_line(text).replace("|", "\u2502")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{text}{fence}" if fence == "`" else f"{fence} {text} {fence}"
