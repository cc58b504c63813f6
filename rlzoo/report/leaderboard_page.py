"""The leaderboard for people and programs: on the terminal, as Markdown, as CSV."""

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rlzoo.comparing.aggregates import THRESHOLDS
from rlzoo.comparing.leaderboard import Leaderboard, Row
from rlzoo.comparing.problem_sets import SetDecoding
from rlzoo.comparing.verdicts import Measured
from rlzoo.config.decoding import Decoding
from rlzoo.files import write_text
from rlzoo.report.console import plain_console
from rlzoo.report.page import page
from rlzoo.report.picture import draw_leaderboard
from rlzoo.report.words import headline, p_value, percent, points, probability, seeds_needed, summary


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
    """A table for each decoding; 80 columns are enough."""
    for decoding in board.decodings:
        table = Table(box=SIMPLE_HEAD, pad_edge=False, title=str(decoding), title_justify="left", title_style="bold")
        table.add_column("objective", overflow="fold")
        for heading in (f"avg@{board.samples_at[decoding]}", "difference", "P(imp.)"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("verdict", max_width=15)
        for row in board.rows:
            result = row.results[decoding]
            table.add_row(
                Text(row.objective),
                percent(result.accuracy).replace(", ", ","),
                points(result.difference).replace(", ", ","),
                probability(result.p_improvement),
                result.verdict,
                style="bold" if result.average.claim else "",
            )
        console.print(table)
    for line in (summary(board), *board.planning, *board.notes):
        console.print(Text(line))


# ---- Markdown and CSV ------------------------------------------------------------------------------------------------


def markdown(board: Leaderboard) -> str:
    """Everything but curves and responses."""
    lines = [f"# {_in_markdown(board.title)}", "", f"{_in_markdown(summary(board))}.", ""]
    for text in (headline(board), *board.planning, *board.notes):
        lines += [_in_markdown(text), ""] if text else []
    for decoding in board.decodings:
        tables = (_table(board, decoding), _other_measures(board, decoding), _of_runs(board, decoding))
        lines += [f"## {decoding}", "", *(line for table in tables for line in (*table, ""))]
    lines += _held_out_curves(board)
    lines += ["## What each part touched", "", "Shares of the tokens and of the advantage mass, in %.", ""]
    lines += ["| objective | part | tokens | advantage mass |", "|---|---|---|---|"]
    for row in board.rows:
        for it in row.touched:
            lines.append(f"| {_code(row.objective)} | {_code(it.part)} | {100 * it.tokens:.3g} | {100 * it.mass:.3g} |")
    lines += ["", "## Setting", ""]
    lines += [f"- {name}: {_code(value)}" for name, value in board.setting.items()]
    lines += [f"- {name}: {', '.join(map(_code, values))}" for name, values in board.environment.items()]
    lines += ["", "## Commands", "", *(f"    {_one_line(row.command)}" for row in board.rows), ""]
    return "\n".join(lines)


def _table(board: Leaderboard, decoding: Decoding) -> Iterator[str]:
    k = board.samples_at[decoding]
    headings = [f"avg@{k}", "by seed", "difference", "p (page)", "verdict", "seeds to find it", "P(improvement)"]
    headings = ["objective", *headings, "entropy", "entropy drift", "length", "s/step"]
    yield f"| {' | '.join(headings)} |"
    yield "|---" * len(headings) + "|"
    for row in board.rows:
        result = row.results[decoding]
        cells = [
            _code(row.objective) + (f" ({_in_markdown(row.name)})" if row.name else ""),
            percent(result.accuracy),
            " ".join(f"{100 * mean:.1f}" for mean in result.average.by_seed),
            points(result.difference),
            p_value(result.difference),
            result.verdict,
            seeds_needed(result.difference),
            probability(result.p_improvement),
            f"{row.entropy:.3f}",
            f"{row.drift:.3f}",
            f"{result.length:.1f}",
            f"{row.seconds_per_step:.2f}",
        ]
        yield f"| {' | '.join(cells)} |"


def _other_measures(board: Leaderboard, decoding: Decoding) -> Iterator[str]:
    names = [f"pass@{board.samples_at[decoding]}", f"maj@{board.samples_at[decoding]}"]
    yield "| objective |" + "".join(f" {name} | difference | verdict |" for name in names)
    yield "|---" * 7 + "|"
    for row in board.rows:
        measures = (row.results[decoding].passed, row.results[decoding].majority)
        cells = [cell for it in measures for cell in (percent(it.estimate), points(it.difference), it.verdict)]
        yield f"| {_code(row.objective)} | {' | '.join(cells)} |"


def _of_runs(board: Leaderboard, decoding: Decoding) -> Iterator[str]:
    """What rliable shows of the runs."""
    above = [f"> {100 * threshold:.0f}" for threshold in THRESHOLDS]
    ranks = [f"P(rank {place})" for place in range(1, len(board.rows) + 1)]
    yield f"| objective | interquartile mean | {' | '.join([*ranks, *above])} |"
    yield "|---" * (2 + len(ranks) + len(above)) + "|"
    for row in board.rows:
        result = row.results[decoding]
        shares = [f"{value:.2f}" for value in (*result.ranks, *result.profile)]
        yield f"| {_code(row.objective)} | {100 * result.interquartile_mean:.1f} | {' | '.join(shares)} |"


def _held_out_curves(board: Leaderboard) -> Iterator[str]:
    if any(row.area is not None for row in board.rows):
        yield "## Held-out accuracy on the way"
        yield ""
        last = f"the last accuracy of {_in_markdown(board.baseline)}"
        yield f"| objective | mean over the steps | steps to {last}, by seed |"
        yield "|---|---|---|"
        for row in board.rows:
            steps = " ".join("-" if step is None else str(step) for step in row.steps_to_baseline)
            area = "-" if row.area is None else f"{100 * row.area:.1f}"
            yield f"| {_code(row.objective)} | {area} | {steps or '-'} |"
        yield ""


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _in_markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", _one_line(text))


def _code(text: str) -> str:
    """Code in a cell: longer fences than any inside, no bars."""
    text = _one_line(text).replace("|", "\u2502")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{text}{fence}" if fence == "`" else f"{fence} {text} {fence}"


def comma_separated(board: Leaderboard) -> str:
    """One line for each row and decoding; shares and accuracies from 0 to 1."""
    text, rows = io.StringIO(), records(board)
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def records(board: Leaderboard) -> list[dict[str, object]]:
    """The figures of each row and decoding."""
    return [_record(row, decoding) for decoding in board.decodings for row in board.rows]


def _record(row: Row, decoding: Decoding) -> dict[str, object]:
    result = row.results[decoding]
    return {
        "objective": row.objective,
        "problem_set": decoding.problem_set if isinstance(decoding, SetDecoding) else "held out",
        "temperature": decoding.temperature,
        "top_p": decoding.top_p,
        "seeds": " ".join(map(str, row.seeds)),
        "accuracy": result.accuracy.mean,
        "accuracy_by_seed": " ".join(f"{mean:.6g}" for mean in result.average.by_seed),
        **_measured("", result.average),
        "p_improvement": result.p_improvement,
        **{f"pass@{k}": value for k, value in result.pass_at.items()},
        **_measured("pass_", result.passed),
        "maj": result.majority.estimate.mean,
        **_measured("maj_", result.majority),
        "interquartile_mean": result.interquartile_mean,
        **{f"above_{threshold:g}": share for threshold, share in zip(THRESHOLDS, result.profile, strict=True)},
        **{f"p_rank_{place}": share for place, share in enumerate(result.ranks, 1)},
        "held_out_area": row.area,
        "steps_to_baseline": " ".join("" if step is None else str(step) for step in row.steps_to_baseline),
        "entropy": row.entropy,
        "entropy_drift": row.drift,
        "length": result.length,
        "truncated": result.truncated,
        "gradient_norm": row.gradient_norm,
        "seconds_per_step": row.seconds_per_step,
        "tokens_per_second": row.tokens_per_second,
        "command": row.command,
    }


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
