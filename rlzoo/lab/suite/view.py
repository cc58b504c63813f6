"""The behaviour suite as it is trained, as files, and on the terminal."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.status import Status
from rich.table import Table
from rich.text import Text

from rlzoo.files import write_json, write_text
from rlzoo.lab.keys import SuiteConfig
from rlzoo.lab.suite import text as suite_text
from rlzoo.lab.suite.cells import Cell
from rlzoo.lab.suite.forest import forest_figure, pictured_claims
from rlzoo.lab.suite.heat import heat, heat_figure
from rlzoo.lab.suite.page import suite_page
from rlzoo.lab.suite.running import Failure
from rlzoo.lab.suite.suite import SuiteTable
from rlzoo.lab.suite.values import claims_values, scores_values
from rlzoo.report.drawing import save_figure, themed
from rlzoo.report.grid_view import PLAIN_EVERY
from rlzoo.report.table import plain_console
from rlzoo.report.terminal import clock

FEW = 8
"""Objectives whose effects are shown on the terminal."""


class SuiteView:
    """Tells of a suite while its cells are trained, and writes what they show."""

    def __init__(self, config: SuiteConfig, quiet: bool = False) -> None:
        self.folder = Path(config.output)
        self.console = plain_console(quiet)
        self.done = self.total = self.before = 0
        self.started = self.told = 0.0
        self.status: Status | None = None

    @contextmanager
    def training(self, done: int, total: int) -> Iterator[None]:
        """While they are: of all cells that were asked for, so many were done before."""
        self.done, self.before, self.total = done, done, total
        self.console.print(f"suite       {total} cells, {done} of them done before")
        with self.console.status("") if self.console.is_terminal else nullcontext() as self.status:
            yield

    def starts(self, missing: int) -> None:
        """So many starting policies are made first."""
        if missing:
            self.console.print(f"starts      {missing} starting policies are made")
        self.started = self.told = time.monotonic()

    def trained(self, cell: Cell, failure: Failure | None) -> None:
        """One is done, or has failed."""
        self.done += 1
        if failure:
            self.console.print(f"failed      {cell}: {failure.message}", soft_wrap=True)
        if self.status:
            self.status.update(self.pace())
        is_due = not self.status and time.monotonic() - self.told > PLAIN_EVERY
        if is_due or self.done == self.total:
            self.told = time.monotonic()
            self.console.print(f"cells       {self.pace()}")

    def pace(self) -> str:
        """How many are done, how many a minute, and how long the others take at that pace."""
        rate = (self.done - self.before) / max(1e-9, time.monotonic() - self.started)
        left = (self.total - self.done) / rate if rate else 0.0
        return f"{self.done}/{self.total}, {60 * rate:.1f} a minute" + (f", {clock(left)} left" if left else "")

    def show(self, suite: SuiteTable, objectives: Sequence[str] = ()) -> None:
        """Writes the files and says what is in them; how these objectives stand to base, if they are few."""
        write_json(self.folder / "claims.json", claims_values(suite))
        write_json(self.folder / "scores.json", scores_values(suite))
        write_text(self.folder / "claims.csv", suite_text.comma_separated(suite))
        write_text(self.folder / "suite.md", suite_text.markdown(suite))
        write_text(self.folder / "suite.html", suite_page(suite))
        shown = heat(suite)
        if shown.rows:
            with themed(rc={"text.parse_math": False}):
                save_figure(heat_figure(shown), self.folder / "suite.png")
                if pictured_claims(suite):
                    save_figure(forest_figure(suite), self.folder / "claims.png")
        self.console.print(claims_table(suite))
        if 0 < len(objectives) <= FEW:
            self.console.print(objectives_table(suite, objectives))
        for sentence in (
            suite_text.summary(suite),
            *suite_text.remarks(suite),
            *(f"{name} cannot be asked of {label}: {why}" for (name, label), why in suite.refused.items()),
            *(
                f"{len(failures)} cells failed; the same call tries them again"
                for failures in [suite.failures]
                if failures
            ),
            f"page  {self.folder / 'suite.html'}",
        ):
            if sentence:
                self.console.print(sentence, soft_wrap=True)


def objectives_table(suite: SuiteTable, objectives: Sequence[str]) -> Table:
    """What objectives that were asked for change, an experiment a row."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("objective", overflow="fold", max_width=26)
    table.add_column("experiment", no_wrap=True)
    table.add_column("to base", overflow="fold", max_width=16)
    table.add_column("p", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for written in objectives:
        for experiment, contrasts in zip(suite.experiments, suite.contrasts, strict=True):
            beside = contrasts.get(experiment.results.others.get(written, ""))
            if beside is None:
                continue
            name = experiment.results.experiment.name
            stands = "void" if experiment.controls.troubles else beside.standing.value
            compared = beside.compared
            table.add_row(
                *map(Text, (written, name, suite_text.effect(compared), suite_text.p_value(compared), stands))
            )
    return table


def claims_table(suite: SuiteTable) -> Table:
    """Claims, one a row."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("experiment", no_wrap=True)
    table.add_column("claim", overflow="fold")
    table.add_column("effect here", overflow="fold", max_width=16)
    table.add_column("p", justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold", max_width=20)
    for experiment, judged in suite.claims:
        claim = judged.claim
        name = experiment.results.experiment.name if judged is experiment.claims[0] else ""
        shown = (name, suite_text.contrast(claim), suite_text.effect(judged.compared))
        table.add_row(*map(Text, (*shown, suite_text.p_value(judged.compared), suite_text.verdict(judged))))
    return table
