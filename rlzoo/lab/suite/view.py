"""The behaviour suite in words, tables and files, and on the terminal while its cells are trained."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rich.status import Status

from rlzoo.experiment.experiment import counted
from rlzoo.files import write_json, write_text
from rlzoo.lab.keys import SuiteConfig
from rlzoo.lab.suite.cells import Cell
from rlzoo.lab.suite.figures import VERDICTS, contrast, forest_figure, heat, heat_figure, pictured_claims
from rlzoo.lab.suite.suite import SuiteTable
from rlzoo.lab.suite.training import Failure
from rlzoo.lab.suite.verdicts import (
    ClaimVerdict,
    Compared,
    Contrasted,
    Controls,
    JudgedClaim,
    JudgedExperiment,
    Standing,
)
from rlzoo.report import table as tables
from rlzoo.report.drawing import save_figure, themed
from rlzoo.report.grid_view import PLAIN_EVERY
from rlzoo.report.table import MARKDOWN, TERMINAL, Column, Shown, Table, in_markdown, plain_console
from rlzoo.report.terminal import clock
from rlzoo.statistics.verdicts import SIGNIFICANCE

FEW = 8
"""Objectives whose effects are shown on the terminal."""
PAPER = frozenset({MARKDOWN})

MARKS = {Standing.HIGHER: "\u25b2", Standing.LOWER: "\u25bc", Standing.SAME_RUN: "=", Standing.NOT_TOLD_APART: ""}
"""Higher or lower than base for sure; the same run."""

# ---- words -----------------------------------------------------------------------------------------------------------


def verdict(judged: JudgedClaim) -> str:
    """In words, with the seeds that would tell."""
    words = VERDICTS[judged.verdict]
    if judged.verdict is not ClaimVerdict.CANNOT_TELL:
        return words
    if judged.compared.difference is None:
        return f"{words}: fewer than two seeds"
    if judged.seeds_needed is None or not any(judged.seeds_needed):
        return f"{words}: would need over a thousand seeds"
    low, high = judged.seeds_needed
    return f"{words}: would need about {f'{low} to {high}' if high else f'{low} or more'} seeds"


def effect(compared: Compared) -> str:
    """The difference with its interval."""
    known = compared.difference
    return "-" if known is None else f"{known.mean:+.3g} [{known.low:+.3g}, {known.high:+.3g}]"


def p_value(compared: Compared) -> str:
    """Corrected."""
    if compared.difference is None:
        return "-"
    return "< .0001" if compared.corrected < 1e-4 else f"{compared.corrected:.4f}".lstrip("0").replace("1.0000", "1")


def standardised(contrasted: Contrasted) -> str:
    """The effect in standard deviations of a run, with its mark."""
    number = "" if contrasted.standardised is None else f"{contrasted.standardised:+.1f}"
    return f"{number}{MARKS[contrasted.standing]}"


def controls(tested: Controls) -> str:
    """What the controls said, in a sentence."""
    if tested.failed:
        return f"void: {'; '.join(failure.value for failure in tested.failed)}"
    base = "base against base was not run"
    if tested.base:
        base = f"base against base {tested.base.told_apart} of {tested.base.comparisons} below {SIGNIFICANCE:g}"
    return (
        f"positive {effect(tested.positive)}, p {p_value(tested.positive)}; negative {effect(tested.negative)}, "
        f"p {p_value(tested.negative)}; {base}"
    )


def summary(suite: SuiteTable) -> str:
    """How many claims there are of each verdict, and how many experiments are valid."""
    claims = [claim.verdict for _, claim in suite.claims]
    counts = [f"{claims.count(outcome)} {words}" for outcome, words in VERDICTS.items() if outcome in claims]
    valid = sum(not experiment.controls.failed for experiment in suite.experiments)
    return (
        f"{counted(len(claims), 'claim')}: {', '.join(counts)}; {valid} of {len(suite.experiments)} experiments valid"
    )


def remarks(suite: SuiteTable) -> list[str]:
    """What holds for all experiments together, in sentences."""
    bases = [experiment.controls.base for experiment in suite.experiments if experiment.controls.base]
    apart, comparisons = sum(base.told_apart for base in bases), sum(base.comparisons for base in bases)
    base = f"base against base on further seeds: {apart} of {comparisons} comparisons below {SIGNIFICANCE:g}"
    looks = f"every p-value is corrected for {suite.looks} interim analyses, at other numbers of seeds"
    return [*[base] * bool(bases), *[looks] * (suite.looks > 1)]


# ---- tables ----------------------------------------------------------------------------------------------------------


def claims_table(suite: SuiteTable) -> Table:
    """A row for each claim."""
    columns = [
        Column("experiment", is_text=True, width=20, shown_on=frozenset({TERMINAL})),
        Column("claim", is_text=True, width=14, shown_on=frozenset({TERMINAL})),
        Column("claim", is_text=True, shown_on=PAPER),
        Column("verdict", is_text=True, width=14),
        Column("effect here", is_text=True, width=15),
        Column("seeds", shown_on=PAPER),
        Column("counts from", shown_on=PAPER),
        Column("p", is_text=True),
        Column("published", is_text=True, shown_on=PAPER),
        Column("touched", is_text=True, shown_on=PAPER),
    ]
    return Table(columns, [_claim_row(*pair) for pair in suite.claims], title="Claims")


def _claim_row(experiment: JudgedExperiment, judged: JudgedClaim) -> list[Shown]:
    claim, known, name = judged.claim, judged.compared.difference, experiment.results.experiment.name
    touched = ", ".join(f"{part} {100 * share:.2g} %" for part, share in judged.touched.items())
    return [
        name if judged is experiment.claims[0] else "",
        contrast(claim),
        tables.Cell(claim.text, notes=[f"{name.replace('_', ' ')}: {contrast(claim)}"]),
        tables.Cell(verdict(judged), kind="soft" if judged.verdict is ClaimVerdict.VOID else "strong"),
        effect(judged.compared),
        known.pairs if known else 0,
        claim.smallest,
        p_value(judged.compared),
        tables.Cell(claim.published, notes=[claim.paper]),
        touched or "not counted",
    ]


def arms_table(judged: JudgedExperiment, contrasts: Mapping[str, Contrasted]) -> Table:
    """A row for each arm of an experiment."""
    heads = ("mean", "seeds", "to base", "in deviations", "p")
    columns = [Column("arm", is_text=True), Column("objective", is_text=True), *map(Column, heads)]
    rows: list[list[Shown]] = []
    for label, arm in judged.results.arms.items():
        mean = arm.values(judged.results.experiment.score, sorted(arm.records)).mean()
        row: list[Shown] = [label, tables.Cell(arm.arm.objective, is_code=True), f"{mean:.3g}", len(arm.records)]
        if beside := contrasts.get(label):
            row += [effect(beside.compared), standardised(beside), p_value(beside.compared)]
        rows.append([*row, *[""] * (len(columns) - len(row))])
    return Table(columns, rows, title=f"Arms of {judged.results.experiment.name}")


def objectives_table(suite: SuiteTable, objectives: Sequence[str]) -> Table:
    """What objectives that were asked for change, an experiment a row."""
    widths = {"objective": 18, "experiment": 20, "to base": 15, "p": 7, "": 10}
    columns = [Column(heading, is_text=True, width=width) for heading, width in widths.items()]
    rows: list[list[Shown]] = []
    for written in objectives:
        for experiment, contrasts in zip(suite.experiments, suite.contrasts, strict=True):
            beside = contrasts.get(experiment.results.others.get(written, ""))
            if beside:
                standing = "void" if experiment.controls.failed else beside.standing.value
                row = (experiment.results.experiment.name, effect(beside.compared), p_value(beside.compared), standing)
                rows.append([tables.Cell(written, is_code=True), *row])
    return Table(columns, rows)


# ---- files -----------------------------------------------------------------------------------------------------------


def claim_records(suite: SuiteTable) -> list[dict[str, Any]]:
    """The claims as values, for what reads them: `claims.json`."""
    return [_record(*pair) for pair in suite.claims]


def _record(of: JudgedExperiment, judged: JudgedClaim) -> dict[str, Any]:
    experiment, claim, known = of.results.experiment, judged.claim, judged.compared.difference
    return {
        "experiment": experiment.name,
        "trouble": experiment.failure_mode,
        "claim": claim.text,
        "paper": claim.paper,
        "published": claim.published,
        "arm": claim.arm,
        "against": claim.against,
        "effect": known and _rounded(known.mean),
        "low": known and _rounded(known.low),
        "high": known and _rounded(known.high),
        "deviation": known and _rounded(known.deviation),
        "seeds": known.pairs if known else 0,
        "p": known and _rounded(known.p_value),
        "p_corrected": known and _rounded(judged.compared.corrected),
        "objective": experiment.arms[claim.arm].objective,
        "objective_against": experiment.arms[claim.against].objective,
        "score": experiment.score,
        "higher": claim.higher,
        "smallest": claim.smallest,
        "verdict": judged.verdict.value,
        "seeds_needed": judged.seeds_needed,
        "touched": {part: _rounded(share) for part, share in judged.touched.items()},
        "void": [failure.name.lower() for failure in of.controls.failed],
    }


def _rounded(value: float) -> float:
    """Six digits: what other machines round otherwise is left out."""
    return float(f"{value:.6g}")


def markdown(suite: SuiteTable) -> str:
    """The claims, the controls and every arm."""
    lines = ["# The behaviour suite", f"{summary(suite)}."]
    lines += [f"{sentence[0].upper()}{sentence[1:]}." for sentence in remarks(suite)]
    lines += ["## Claims", claims_table(suite).markdown(), "## Experiments"]
    for judged, contrasts in zip(suite.experiments, suite.contrasts, strict=True):
        experiment = judged.results.experiment
        lines += [f"### {in_markdown(experiment.name)}"]
        lines += [f"{in_markdown(experiment.question)} Score: {in_markdown(experiment.unit)}."]
        lines += [f"Controls: {in_markdown(controls(judged.controls))}.", arms_table(judged, contrasts).markdown()]
    return "\n\n".join(lines) + "\n"


# ---- the terminal ----------------------------------------------------------------------------------------------------


class SuiteView:
    """Shows a suite while its cells are trained, and writes what they show."""

    def __init__(self, config: SuiteConfig, quiet: bool = False) -> None:
        self.folder = Path(config.output)
        self.console = plain_console(quiet)
        self.done = self.total = self.before = 0
        self.started = self.last_line = 0.0
        self.status: Status | None = None

    @contextmanager
    def training(self, done: int, total: int) -> Iterator[None]:
        """A context in which cells are trained: `total` in all, `done` of them before."""
        self.done, self.before, self.total = done, done, total
        self.console.print(f"suite       {total} cells, {done} of them done before")
        with self.console.status("") if self.console.is_terminal else nullcontext() as self.status:
            yield

    def starts(self, missing: int) -> None:
        """Shows that `missing` starting policies are made first."""
        if missing:
            self.console.print(f"starts      {missing} starting policies are made")
        self.started = self.last_line = time.monotonic()

    def trained(self, cell: Cell, failure: Failure | None) -> None:
        """Shows that a cell is done, or has failed."""
        self.done += 1
        if failure:
            self.console.print(f"failed      {cell}: {failure.message}", soft_wrap=True)
        if self.status:
            self.status.update(self.pace())
        is_due = not self.status and time.monotonic() - self.last_line > PLAIN_EVERY
        if is_due or self.done == self.total:
            self.last_line = time.monotonic()
            self.console.print(f"cells       {self.pace()}")

    def pace(self) -> str:
        """How many are done, how many a minute, and how long the others take at that pace."""
        rate = (self.done - self.before) / max(1e-9, time.monotonic() - self.started)
        left = (self.total - self.done) / rate if rate else 0.0
        return f"{self.done}/{self.total}, {60 * rate:.1f} a minute" + (f", {clock(left)} left" if left else "")

    def show(self, suite: SuiteTable, objectives: Sequence[str] = ()) -> None:
        """Writes the files and says what is in them; how these objectives stand to base, if they are few."""
        write_json(self.folder / "claims.json", {"claims": claim_records(suite)})
        write_text(self.folder / "suite.md", markdown(suite))
        if shown := heat(suite):
            with themed(rc={"text.parse_math": False}):
                save_figure(heat_figure(shown), self.folder / "suite.png")
                if pictured_claims(suite):
                    save_figure(forest_figure(suite), self.folder / "claims.png")
        self.console.print(claims_table(suite))
        if 0 < len(objectives) <= FEW:
            self.console.print(objectives_table(suite, objectives))
        failed = f"{len(suite.failures)} cells failed; the same call tries them again"
        refused = [f"{name} cannot be asked of {label}: {why}" for (name, label), why in suite.refused.items()]
        page = f"everything: {self.folder / 'suite.md'}, and beside it claims.json and pictures"
        for sentence in (summary(suite), *remarks(suite), *refused, *[failed] * bool(suite.failures), page):
            self.console.print(sentence, soft_wrap=True)
