"""The leaderboard as Markdown."""

import re
from collections.abc import Iterable, Sequence

from rlzoo.comparing.aggregates import THRESHOLDS
from rlzoo.comparing.grid import WITHOUT
from rlzoo.comparing.leaderboard import Leaderboard
from rlzoo.config.decoding import Decoding
from rlzoo.report.forest import as_text, forest
from rlzoo.report.words import headlines, p_value, percent, points, printable, probability, seeds_needed, summary


def markdown(board: Leaderboard) -> str:
    """Everything but curves and responses; what decides is a table, the rest is folded."""
    lines = [f"# {_in_markdown(board.title)}", ""]
    for text in (*headlines(board), f"{summary(board)}.", *board.planning, *board.notes):
        lines += [_in_markdown(text), ""]
    for decoding in board.decodings:
        lines += [f"## {_in_markdown(str(decoding))}", "", *_results(board, decoding), ""]
        k = board.samples_at[decoding]
        lines += _folded(f"pass@{k}, maj@{k}, p-values", _other_measures(board, decoding))
        lines += _folded("interquartile means, ranks, performance profiles", _of_runs(board, decoding))
    lines += _held_out_curves(board)
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
    headings = [f"avg@{board.samples_at[decoding]}", "difference", f"{low:.1f} to {high:.1f}", "verdict", "by seed"]
    return _markdown_table(["objective", *without, *headings], rows)


def _other_measures(board: Leaderboard, decoding: Decoding) -> list[str]:
    headings = ["objective", "p (page)", "seeds to find it", "P(improvement)"]
    for name in (f"pass@{board.samples_at[decoding]}", f"maj@{board.samples_at[decoding]}"):
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


def _of_runs(board: Leaderboard, decoding: Decoding) -> list[str]:
    """What rliable shows of the runs."""
    above = [f"> {100 * threshold:.0f}" for threshold in THRESHOLDS]
    ranks = [f"P(rank {place})" for place in range(1, len(board.rows) + 1)]
    rows = []
    for row in board.rows:
        result = row.results[decoding]
        shares = [f"{value:.2f}" for value in (*result.ranks, *result.profile)]
        rows.append([_code(row.objective), f"{100 * result.interquartile_mean:.1f}", *shares])
    return _markdown_table(["objective", "interquartile mean", *ranks, *above], rows)


def _held_out_curves(board: Leaderboard) -> list[str]:
    if all(row.area is None for row in board.rows):
        return []
    rows = []
    for row in board.rows:
        steps = " ".join("-" if step is None else str(step) for step in row.steps_to_baseline)
        rows.append([_code(row.objective), "-" if row.area is None else f"{100 * row.area:.1f}", steps or "-"])
    last = f"steps to the last accuracy of {_in_markdown(board.baseline)}, by seed"
    return [
        "## Held-out accuracy on the way",
        "",
        *_markdown_table(["objective", "mean over the steps", last], rows),
        "",
    ]


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def _in_markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", _one_line(text))


def _code(text: str) -> str:
    """Code in a cell: longer fences than any inside, no bars."""
    text = _one_line(text).replace("|", "\u2502")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{text}{fence}" if fence == "`" else f"{fence} {text} {fence}"
