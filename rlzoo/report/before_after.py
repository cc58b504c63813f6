"""What a run changed: figures of the held-out problems before and after, and whole responses to one of them."""

from collections.abc import Mapping

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from rlzoo.config.decoding import Decoding
from rlzoo.evaluation.calls import call_figures
from rlzoo.evaluation.evaluate import Evaluation
from rlzoo.report.formatting import percent, points
from rlzoo.statistics.aggregates import pass_at_k
from rlzoo.statistics.intervals import mean_over_problems, paired_difference
from rlzoo.tasks.text import asked
from rlzoo.training.run import Outcome

RESPONSES = 3
"""Of the problem that is shown, before and after."""
LONGEST = 240
"""Characters of a text that is shown."""

Ends = tuple[Evaluation, Evaluation]


def figures_table(outcome: Outcome) -> Table:
    """Accuracy before and after with every decoding; the other figures are those of the first decoding."""
    ends = _ends(outcome)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("held out", no_wrap=True)
    for heading in ("before (%)", "after (%)", "difference"):
        table.add_column(heading, justify="right", no_wrap=True)
    for decoding, pair in ends.items():
        k, scores = min(it.samples for it in pair), [evaluation.column("correct") for evaluation in pair]
        _add_share(table, "greedy" if decoding.is_greedy else f"avg@{k} {decoding}".replace(", ", " "), scores, "bold")
        if k > 1:
            _add_share(table, f"  pass@{k}", [pass_at_k(score, k)[:, None] for score in scores])
    first = next(iter(ends.values()))
    old, new = (evaluation.summary() for evaluation in first)
    for name, label, form in (("entropy", "entropy (nats)", ".3f"), ("length", "length (tokens)", ".1f")):
        table.add_row(label, f"{old[name]:{form}}", f"{new[name]:{form}}", f"{new[name] - old[name]:+{form}}")
    cut = [100 * summary["truncated"] for summary in (old, new)]
    table.add_row("truncated (%)", *(f"{share:.1f}" for share in cut), f"{cut[1] - cut[0]:+.1f}")
    calls, later_calls = (call_figures(evaluation.records, outcome.experiment.task) for evaluation in first)
    for label, value in calls.items():
        form = ".1f" if "%" in label else ".2f"
        table.add_row(label, f"{value:{form}}", f"{later_calls[label]:{form}}", f"{later_calls[label] - value:+{form}}")
    for name in ("timed_out", "failed"):
        if old[name] or new[name]:
            table.add_row(f"gradings {name.replace('_', ' ')}", str(old[name]), str(new[name]), "")
    return table


def responses_table(outcome: Outcome) -> Table:
    """Responses to one problem before and after: the problem with the median change of accuracy, the first of several.

    They are the first samples of the first decoding.
    """
    before, after = next(iter(_ends(outcome).values()))
    change = after.column("correct").mean(axis=1) - before.column("correct").mean(axis=1)
    number = int(np.argsort(change, kind="stable")[(len(change) - 1) // 2])
    record = before.records[number * before.samples]
    prompt = record["prompt"] if isinstance(record["prompt"], str) else asked(record["prompt"])
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_row("problem", _shortened(prompt), "")
    table.add_row("gold", _shortened(record["answer"]), "")
    for when, evaluation in (("before", before), ("after", after)):
        start = number * evaluation.samples
        for place, record in enumerate(evaluation.records[start : start + min(RESPONSES, evaluation.samples)]):
            verdict = "right" if record["correct"] == 1 else "wrong" if record["correct"] == 0 else "partly right"
            table.add_row("" if place else when, _shortened(record["response"]), verdict)
    return table


def _ends(outcome: Outcome) -> Mapping[Decoding, Ends]:
    """The first and the last evaluation of each decoding."""
    return {
        decoding: (by_step[min(by_step)], by_step[max(by_step)]) for decoding, by_step in outcome.evaluations.items()
    }


def _add_share(table: Table, label: str, scores: list[np.ndarray], style: str = "") -> None:
    """A row of shares, each [problems, samples], with 95 % intervals."""
    cells = [*(percent(mean_over_problems(score)) for score in scores), points(paired_difference(*scores))]
    table.add_row(label, *(cell.replace(", ", ",") for cell in cells), style=style)


def _shortened(text: str) -> Text:
    """The text on one line, cut after `LONGEST` characters."""
    line = " ".join(text.split())
    return Text(line if len(line) <= LONGEST else f"{line[:LONGEST]}… ({len(line):,} characters)")
