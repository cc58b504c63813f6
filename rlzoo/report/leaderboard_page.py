"""The leaderboard for people and programs: on the terminal, as Markdown, as CSV."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rlzoo.comparing.grid import WITHOUT
from rlzoo.comparing.leaderboard import Leaderboard, Row
from rlzoo.comparing.verdicts import Measured
from rlzoo.config.decoding import Decoding
from rlzoo.files import write_text
from rlzoo.report.forest import as_text, forest
from rlzoo.report.page import page
from rlzoo.report.picture import draw_leaderboard
from rlzoo.report.words import (
    folded,
    headlines,
    p_value,
    percent,
    points,
    printable,
    probability,
    seeds_needed,
    summary,
)

OTHER_COLUMNS, NARROWEST = 50, 24
"""Characters that the terminal's table needs beside the names, and that these get at least."""


def show_leaderboard(board: Leaderboard, output: Path) -> None:
    """Writes it into the folder `output` as a page, a picture, Markdown and CSV, and prints it."""
    console = Console(highlight=False, markup=False)
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
        for heading in (f"avg@{board.samples}", "difference"):
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


# ---- Markdown --------------------------------------------------------------------------------------------------------


def markdown(board: Leaderboard) -> str:
    """Everything but curves and responses; what decides is a table, the rest is folded."""
    lines = [f"# {_in_markdown(board.title)}", ""]
    for text in (*headlines(board), f"{summary(board)}.", *board.planning, *board.notes):
        lines += [_in_markdown(text), ""]
    for decoding in board.decodings:
        lines += [f"## {decoding}", "", *_results(board, decoding), ""]
        lines += _folded(f"pass@{board.samples}, maj@{board.samples}, p-values", _other_measures(board, decoding))
    lines += ["## What each part touched", "", "Shares of the tokens / of the advantage mass, in %.", ""]
    lines += [*_touched(board), "", "## Training", "", *_training(board), "", "## Setting", ""]
    lines += [f"- {_in_markdown(name)}: {_code(value)}" for name, value in board.setting.items()]
    lines += [f"- {_in_markdown(name)}: {', '.join(map(_code, them))}" for name, them in board.environment.items()]
    lines += ["", "## Commands", "", *(f"    {_one_line(row.command)}" for row in board.rows), ""]
    return "\n".join(lines)


def _markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (headings, ["---"] * len(headings), *rows)]


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>", ""]


def _results(board: Leaderboard, decoding: Decoding) -> list[str]:
    drawn, rows = forest(board, decoding), []
    for row in board.rows:
        result, is_baseline = row.results[decoding], row.objective == board.baseline
        asked = f" ({_in_markdown(row.name)})" if row.name else ""
        plot = as_text(drawn.marks[row.objective], drawn.zero, is_baseline).replace(" ", "\u00a0")
        by_seed = " ".join(f"{100 * mean:.1f}" for mean in result.average.by_seed)
        cells = [percent(result.accuracy), points(result.difference), f"`{plot}`", result.verdict, by_seed]
        without = [_code(row.without) if row.without else ""] * any(it.without for it in board.rows)
        rows.append([_code(row.objective.partition(WITHOUT)[0]) + asked, *without, *cells])
    low, high = 100 * drawn.scale.low, 100 * drawn.scale.high
    without = ["without"] * any(it.without for it in board.rows)
    headings = [f"avg@{board.samples}", "difference", f"{low:.1f} to {high:.1f}", "verdict", "by seed"]
    return _markdown_table(["objective", *without, *headings], rows)


def _other_measures(board: Leaderboard, decoding: Decoding) -> list[str]:
    headings = ["objective", "p (page)", "seeds to find it", "P(improvement)"]
    for name in (f"pass@{board.samples}", f"maj@{board.samples}"):
        headings += [name, "difference", "verdict"]
    rows = []
    for row in board.rows:
        result = row.results[decoding]
        own = (p_value(result.difference), seeds_needed(result.difference), probability(result.p_improvement))
        measures = (result.passed, result.majority)
        cells = [cell for it in measures for cell in (percent(it.estimate), points(it.difference), it.verdict)]
        rows.append([_code(row.objective), *own, *cells, f"{result.length:.1f}"])
    return _markdown_table([*headings, "length"], rows)


def _touched(board: Leaderboard) -> list[str]:
    parts = sorted({it.part for row in board.rows for it in row.touched})
    rows = []
    for row in board.rows:
        own = {it.part: f"{100 * it.tokens:.3g} / {100 * it.mass:.3g}" for it in row.touched}
        rows.append([_code(row.objective), *(own.get(part, "") for part in parts)])
    return _markdown_table(["objective", *map(_code, parts)], rows)


def _training(board: Leaderboard) -> list[str]:
    rows = [
        [_code(it.objective), f"{it.entropy:.3f}", f"{it.drift:.3f}", f"{it.seconds_per_step:.2f}"] for it in board.rows
    ]
    return _markdown_table(["objective", "entropy", "entropy drift", "s/step"], rows)


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def _in_markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", _one_line(text))


def _code(text: str) -> str:
    """Code in a cell: longer fences than any inside, no bars."""
    text = _one_line(text).replace("|", "\u2502")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{text}{fence}" if fence == "`" else f"{fence} {text} {fence}"


# ---- CSV -------------------------------------------------------------------------------------------------------------


def comma_separated(board: Leaderboard) -> str:
    """One line for each row and decoding, with a column for each seed; shares and accuracies from 0 to 1."""
    text = io.StringIO()
    seeds = sorted({seed for row in board.rows for seed in row.seeds})
    records = [_record(row, decoding, seeds) for decoding in board.decodings for row in board.rows]
    writer = csv.DictWriter(text, records[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def _record(row: Row, decoding: Decoding, seeds: Sequence[int]) -> dict[str, object]:
    result = row.results[decoding]
    return {
        "objective": printable(row.objective),
        "without": printable(row.without),
        "temperature": decoding.temperature,
        "top_p": decoding.top_p,
        "seeds": " ".join(map(str, row.seeds)),
        "accuracy": result.accuracy.mean,
        **_measured("", result.average),
        "p_improvement": result.p_improvement,
        **{f"pass@{k}": value for k, value in result.pass_at.items()},
        **_measured("pass_", result.passed),
        "maj": result.majority.estimate.mean,
        **_measured("maj_", result.majority),
        **_by_seed("accuracy", result.average, row, seeds),
        **_by_seed("pass", result.passed, row, seeds),
        **_by_seed("maj", result.majority, row, seeds),
        "entropy": row.entropy,
        "entropy_drift": row.drift,
        "length": result.length,
        "truncated": result.truncated,
        "gradient_norm": row.gradient_norm,
        "seconds_per_step": row.seconds_per_step,
        "tokens_per_second": row.tokens_per_second,
        "command": printable(row.command),
    }


def _by_seed(name: str, measured: Measured, row: Row, seeds: Sequence[int]) -> dict[str, object]:
    """Nothing where a row does not have a seed that others have."""
    values = dict(zip(row.seeds, measured.by_seed, strict=True))
    return {f"{name}_seed_{seed}": values.get(seed) for seed in seeds}


def _measured(prefix: str, it: Measured) -> dict[str, object]:
    difference = it.difference
    return {
        f"{prefix or 'accuracy_'}low": it.estimate.low,
        f"{prefix or 'accuracy_'}high": it.estimate.high,
        f"{prefix}difference": difference and difference.mean,
        f"{prefix}difference_low": difference and difference.low,
        f"{prefix}difference_high": difference and difference.high,
        f"{prefix}difference_alone_low": difference and difference.alone.low,
        f"{prefix}difference_alone_high": difference and difference.alone.high,
        f"{prefix}p_page": difference and difference.p_value,
        f"{prefix}detectable": difference and difference.detectable,
        f"{prefix}seeds_needed": difference and difference.seeds_needed,
        f"{prefix}verdict": it.verdict,
    }
