"""Tables of evaluations and of grades that changed; 80 columns are enough."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from rlzoo.evaluation.evaluate import Evaluation
from rlzoo.evaluation.statistics import Estimate, macro_average
from rlzoo.report.words import percent


def results_table(results: Mapping[str, Evaluation], conditions: str) -> Table:
    """A row for each problem set and, if there are several, their macro average, with its interval over problems."""
    several = len(results) > 1
    title = conditions if several else f"{next(iter(results))}, {conditions}"
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=0, title=title, title_justify="left", title_style="")
    if several:
        table.add_column("benchmark", no_wrap=True)
    k = {result.samples for result in results.values()}
    at = f"@{k.pop()}" if len(k) == 1 else "@k"
    for heading in ("n x k", f"avg{at}", f"pass{at}", f"maj{at}", "entropy", "length", "trun-\ncated", "time-\nouts"):
        table.add_column(heading, justify="right", no_wrap="\n" not in heading)
    summaries = {name: result.summary() for name, result in results.items()}
    for name, result in results.items():
        cells = (f"{summaries[name]['problems']} x {result.samples}", _narrow(result.accuracy))
        table.add_row(*[name] * several, *cells, *_means([summaries[name]]))
    if several:
        table.add_section()
        macro = macro_average([result.column("correct") for result in results.values()])
        table.add_row("macro average", "", _narrow(macro), *_means(list(summaries.values())), style="bold")
    return table


def _narrow(interval: Estimate) -> str:
    return percent(interval).replace(", ", ",")


def _means(summaries: Sequence[Mapping[str, Any]]) -> list[str]:
    """pass@k, maj@k, entropy, length and truncation, each benchmark counting the same; time-outs in all."""

    def mean(name: str) -> float:
        return float(np.mean([summary[name] for summary in summaries]))

    passed = float(np.mean([summary["pass_at"][summary["samples"]] for summary in summaries]))
    return [
        f"{100 * passed:.1f}",
        f"{100 * mean('majority'):.1f}",
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
