"""Evaluations on the terminal: of problem sets, before and after training, and grades that changed; in 80 columns."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from rlzoo.config.decoding import Decoding
from rlzoo.evaluation.evaluate import Evaluation, call_figures
from rlzoo.report.formatting import interval, percent, points
from rlzoo.report.table import Cell, Column, Shown, Table, plain_console
from rlzoo.statistics.aggregates import pass_at_k
from rlzoo.statistics.intervals import Estimate, macro_average, mean_over_problems, paired_difference
from rlzoo.tasks.text import asked
from rlzoo.training.run import Outcome

if TYPE_CHECKING:  # what grades takes 0.4 s to import
    from rlzoo.evaluation.grade_file import Regraded

RESPONSES = 3
"""Of the problem that is shown, before and after."""
LONGEST = 240
"""Characters of a text that is shown."""
CHANGES = 10
"""Changed grades that are listed of each file."""

Ends = tuple[Evaluation, Evaluation]


# ---- problem sets ----------------------------------------------------------------------------------------------------


def results_tables(results: Mapping[str, Evaluation], conditions: str) -> list[Table]:
    """Accuracies, then how the responses were; a row for each problem set and, if there are several, the average."""
    summaries = {name: result.summary() for name, result in results.items()}
    k = {result.samples for result in results.values()}
    at = f"@{k.pop()}" if len(k) == 1 else "@k"
    accuracies, responses = list[list[Shown]](), list[list[Shown]]()
    for name, result in results.items():
        measured = (result.accuracy, result.passed, result.majority)
        accuracies.append([name, f"{summaries[name]['problems']} x {result.samples}", *map(_share, measured)])
        responses.append([name, *_means([summaries[name]])])
    average: list[list[Shown]] = []
    average_responses: list[list[Shown]] = []
    if len(results) > 1:
        scores = [
            [result.column("correct") for result in results.values()],
            [pass_at_k(result.column("correct"), result.samples)[:, None] for result in results.values()],
            [result.majorities[:, None] for result in results.values()],
        ]
        macro = Cell("macro average", kind="strong")
        average = [[macro, "", *(_share(macro_average(of_sets)) for of_sets in scores)]]
        average_responses = [[macro, *_means(list(summaries.values()))]]
    heads = _columns("benchmark", "n x k", f"avg{at}", f"pass{at}", f"maj{at}")
    of_responses = _columns("benchmark", "entropy", "length", "truncated", "time-outs")
    return [Table(heads, accuracies, average, conditions), Table(of_responses, responses, average_responses)]


def _columns(first: str, *others: str) -> list[Column]:
    return [Column(first, is_text=True), *map(Column, others)]


def _share(estimate: Estimate) -> Cell:
    return Cell(f"{100 * estimate.mean:.1f}", interval(estimate))


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


# ---- before and after training ---------------------------------------------------------------------------------------


def figures_table(outcome: Outcome) -> Table:
    """Accuracy before and after with every decoding; the other figures are those of the first decoding."""
    ends = _ends(outcome)
    rows: list[list[Shown]] = []
    for decoding, pair in ends.items():
        k, scores = min(it.samples for it in pair), [evaluation.column("correct") for evaluation in pair]
        name = "greedy" if decoding.is_greedy else f"avg@{k} {decoding}".replace(", ", " ")
        rows.append([Cell(name, kind="strong"), *_shares(scores)])
        if k > 1:
            rows.append([f"  pass@{k}", *_shares([pass_at_k(score, k)[:, None] for score in scores])])
    first = next(iter(ends.values()))
    old, new = (evaluation.summary() for evaluation in first)
    for name, label, form in (("entropy", "entropy (nats)", ".3f"), ("length", "length (tokens)", ".1f")):
        rows.append(_change(label, old[name], new[name], form))
    rows.append(_change("truncated (%)", 100 * old["truncated"], 100 * new["truncated"], ".1f"))
    calls, later_calls = (call_figures(evaluation.records, outcome.experiment.task) for evaluation in first)
    rows += [_change(label, calls[label], later_calls[label], ".1f" if "%" in label else ".2f") for label in calls]
    for name in ("timed_out", "failed"):
        if old[name] or new[name]:
            rows.append([f"gradings {name.replace('_', ' ')}", str(old[name]), str(new[name]), ""])
    return Table(_columns("held out [95 %]", "before (%)", "after (%)", "difference"), rows)


def _shares(scores: Sequence[np.ndarray]) -> list[str]:
    """Shares of [problems, samples] with 95 % intervals, and their difference."""
    cells = [*(percent(mean_over_problems(score)) for score in scores), points(paired_difference(*scores))]
    return [cell.replace(", ", ",") for cell in cells]


def _change(label: str, before: float, after: float, form: str) -> list[Shown]:
    return [label, f"{before:{form}}", f"{after:{form}}", f"{after - before:+{form}}"]


def responses_table(outcome: Outcome) -> Table:
    """Responses to one problem before and after: the problem with the median change of accuracy, the first of several.

    They are the first samples of the first decoding.
    """
    before, after = next(iter(_ends(outcome).values()))
    change = after.column("correct").mean(axis=1) - before.column("correct").mean(axis=1)
    number = int(np.argsort(change, kind="stable")[(len(change) - 1) // 2])
    record = before.records[number * before.samples]
    prompt = record["prompt"] if isinstance(record["prompt"], str) else asked(record["prompt"])
    rows = [["problem", _shortened(prompt), ""], ["gold", _shortened(record["answer"]), ""]]
    for when, evaluation in (("before", before), ("after", after)):
        start = number * evaluation.samples
        for place, record in enumerate(evaluation.records[start : start + min(RESPONSES, evaluation.samples)]):
            rows.append(["" if place else when, _shortened(record["response"]), _grade(record)])
    return Table([Column("", is_text=True), Column("text", is_text=True), Column("grade", is_text=True)], rows)


def _ends(outcome: Outcome) -> Mapping[Decoding, Ends]:
    """The first and the last evaluation of each decoding."""
    return {
        decoding: (by_step[min(by_step)], by_step[max(by_step)]) for decoding, by_step in outcome.evaluations.items()
    }


def _shortened(text: str, longest: int = LONGEST) -> str:
    """Returns the text on one line, cut after `longest` characters."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[:longest]}… ({len(line):,} characters)"


# ---- grades that changed ---------------------------------------------------------------------------------------------


def print_regraded(regraded: "Regraded", console: Console | None = None) -> None:
    """How many grades of a file changed, and the first of them."""
    console, count, changes = console or plain_console(), len(regraded.after), regraded.changes
    risen = sum(after["correct"] > before["correct"] for before, after in changes)
    means = [100 * sum(it["correct"] for it in records) / count for records in (regraded.before, regraded.after)]
    console.print(f"{regraded.file}", soft_wrap=True, style="bold")
    console.print(
        f"{len(changes)} of {count} grades changed, {risen} up and {len(changes) - risen} down: "
        f"accuracy {means[0]:.2f} -> {means[1]:.2f} %"
    )
    outcomes = [record["outcome"] for record in regraded.after]
    if lost := outcomes.count("timed_out") + outcomes.count("failed"):
        console.print(f"{outcomes.count('timed_out')} of {lost} gradings that were lost timed out, the others failed")
    if changes:
        rows = [
            [*map(_cut, (new["problem"], new["answer"], str(new.get("final_answer")))), _grade(old), _grade(new)]
            for old, new in changes[:CHANGES]
        ]
        columns = [Column(heading, is_text=True) for heading in ("problem", "gold", "answer", "before", "after")]
        console.print(Table(columns, rows))
    console.print(f"written to {regraded.target}", soft_wrap=True)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 18 else f"{line[:17]}…"


def _grade(record: Mapping[str, Any]) -> str:
    if record["outcome"] != "graded":
        return str(record["outcome"]).replace("_", "-")
    return "right" if record["correct"] == 1 else "wrong" if record["correct"] == 0 else "partly right"
