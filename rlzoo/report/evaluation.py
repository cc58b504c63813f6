"""Tables of evaluations and of grades that changed; 80 columns are enough."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from rlzoo.evaluation.evaluate import Evaluation
from rlzoo.report.formatting import percent
from rlzoo.statistics.aggregates import pass_at_k
from rlzoo.statistics.intervals import Estimate, macro_average


def results_tables(results: Mapping[str, Evaluation], conditions: str) -> list[Table]:
    """Accuracies, then how the responses were; a row for each problem set and, if there are several, the average."""
    several = len(results) > 1
    title = conditions if several else f"{next(iter(results))}, {conditions}"
    summaries = {name: result.summary() for name, result in results.items()}
    k = {result.samples for result in results.values()}
    at = f"@{k.pop()}" if len(k) == 1 else "@k"
    accuracies = _table(several, ("n x k", f"avg{at}", f"pass{at}", f"maj{at}"), title)
    responses = _table(several, ("entropy", "length", "truncated", "time-outs"))
    for name, result in results.items():
        measured = (result.accuracy, result.passed, result.majority)
        size = f"{summaries[name]['problems']} x {result.samples}"
        accuracies.add_row(*[name] * several, size, *map(_narrow, measured))
        responses.add_row(*[name] * several, *_means([summaries[name]]))
    if several:
        scores = [
            [result.column("correct") for result in results.values()],
            [pass_at_k(result.column("correct"), result.samples)[:, None] for result in results.values()],
            [result.majorities[:, None] for result in results.values()],
        ]
        for table in (accuracies, responses):
            table.add_section()
        accuracies.add_row("macro average", "", *(_narrow(macro_average(of_sets)) for of_sets in scores), style="bold")
        responses.add_row("macro average", *_means(list(summaries.values())), style="bold")
    return [accuracies, responses]


def _table(several: bool, headings: Sequence[str], title: str | None = None) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), title=title, title_justify="left", title_style="")
    if several:
        table.add_column("benchmark", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _narrow(interval: Estimate) -> str:
    return percent(interval).replace(", ", ",")


def _means(summaries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Entropy, length and truncation, each benchmark counting the same; time-outs in all."""

    def mean(name: str) -> float:
        return float(np.mean([summary[name] for summary in summaries]))

    return [
        f"{mean('entropy'):.3f}",
        f"{mean('length'):,.1f}" if mean("length") < 1000 else f"{mean('length'):,.0f}",
        f"{mean('truncated'):.1%}",
        str(sum(summary["timed_out"] for summary in summaries)),
    ]


def changes_table(changes: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Table:
    """Records before and after they were graded again."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for heading, width in (("problem", 22), ("gold", 18), ("answer", 18), ("before", 8), ("after", 8)):
        table.add_column(heading, max_width=width, overflow="ellipsis", no_wrap=True)
    for before, after in changes:
        cells = (after["problem"], after["answer"], str(after.get("final_answer")), _grade(before), _grade(after))
        table.add_row(*(Text(cell.replace("\n", " ")) for cell in cells))
    return table


def _grade(record: Mapping[str, Any]) -> str:
    if record["outcome"] != "graded":
        return str(record["outcome"]).replace("_", "-")
    return "right" if record["correct"] == 1 else "wrong"
