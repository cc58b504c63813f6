"""What a run shows while it works: in place on a terminal, as plain lines in a pipe; 80 columns are enough."""

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from objectives import Mask
from rlzoo.comparing.grid_words import settings_of
from rlzoo.config import flat
from rlzoo.config.decoding import Decoding
from rlzoo.config.recorded import outside_names
from rlzoo.doctor.detectors import Detection
from rlzoo.evaluation.evaluate import Evaluation
from rlzoo.evaluation.target import keys_of_code
from rlzoo.experiment.check import idle_parts
from rlzoo.experiment.experiment import Experiment, counted
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.ownership import is_own
from rlzoo.report.evaluation import figures_table, responses_table, results_tables
from rlzoo.report.memory import said_room
from rlzoo.report.table import Column, Shown, Table, pairs, plain_console
from rlzoo.rollout import engine_class
from rlzoo.rollout.memory import shape_of
from rlzoo.rollout.sampler import PHASES
from rlzoo.tasks.environment_class import tool_keys
from rlzoo.tasks.forms import forms_said
from rlzoo.training.fit import whole_responses
from rlzoo.training.run import Outcome, ShowStep


class Terminal:
    """Prints a run's progress and results."""

    def __init__(self, console: Console | None = None, quiet: bool = False) -> None:
        self.console = console or plain_console(quiet)

    def silence(self) -> None:
        """Prints nothing from now on; for processes other than the main one."""
        self.console.quiet = True

    def introduce(self, experiment: Experiment, device: str, processes: int) -> None:
        """The expanded objective and the counting arithmetic."""
        config, lines = experiment.config, list[tuple[str, str]]()
        written = config.objective.replace(" ", "")
        canonical = str(experiment.objective)
        lines.append(("objective", canonical if written == canonical else f"{written}  =  {canonical}"))
        for line in filter(None, (*experiment.objective.notices, idle_parts(config, experiment.objective))):
            lines.append(("", line))
        for part in experiment.objective.parts:
            lines.append(("", f"{part.stage.name.lower():<10} {part.name}: {part.formula()}"))
        machine = f"{device} in {counted(processes, 'process')}"
        lines.append(("model", f"{config.model.name} on {machine}, {config.model.precision}"))
        if device == "cuda" and config.model.precision == "float32":
            lines.append(("", "float32 without TF32, exact and about ten times slower than model.precision=bfloat16"))
        if device == "cuda" and config.rollout.engine == "transformers" and find_spec("vllm"):
            lines.append(("", "rollout.engine=vllm is installed, and samples many times faster on a GPU"))
        lines.append(("task", f"{config.task.name}, {len(experiment.held_out)} problems held out"))
        limit = counted(config.rollout.max_response_tokens, "token")
        lines.append(("responses", f"end with {experiment.tokenizer.ends}, or are cut after {limit}"))
        for line in forms_said(experiment.held_out, config.task):
            lines.append(("", line))
        for i, line in enumerate(experiment.counting()):
            lines.append(("" if i else "each step", line))
        has_cache = engine_class(config.rollout.engine).kv_cache_gib is not None
        if device == "cuda" and has_cache and shape_of(config.model).cached_numbers:
            room = said_room(*whole_responses(config, shape_of(config.model), processes))
            lines.append(("", f"rollout.kv_cache_gib: {room}"))
        lines.append(("learning rate", experiment.learning_rate()))
        lines.append(("run folder", str(experiment.folder)))
        self.console.print(pairs(lines))

    def nothing_left(self, folder: RunFolder) -> None:
        """What follows is about a run that was done before."""
        self.console.print(f"{folder.path} is finished: nothing is left to train", soft_wrap=True)

    @contextmanager
    def evaluating(self, decoding: Decoding, name: str = "") -> Iterator[Callable[[int, int], None]]:
        """Yields what to call with responses done and responses in all; `name` is what is evaluated on."""
        with self._progress(f"{name or 'evaluating'} at {decoding}", "responses") as (progress, task):

            def show(done: int, total: int) -> None:
                progress.update(task, completed=done, total=total)
                if not self.console.is_terminal and done == total:
                    self.console.print(f"evaluated {total} held-out responses{name and f' to {name}'}, {decoding}")

            yield show

    @contextmanager
    def warming_up(self, steps: int) -> Iterator[Callable[[int, int, float], None]]:
        """Yields what to call with steps done, all steps, and the loss."""
        with self._progress("warming up", "steps", total=steps) as (progress, task):

            def show(done: int, total: int, loss: float) -> None:
                progress.update(task, completed=done, total=total)
                if done % max(1, total // 20) == 0 or done == total:
                    self.console.print(f"{done:>6}/{total}  loss {loss:.3f}")

            yield show

    @contextmanager
    def training(self, experiment: Experiment, done: int) -> Iterator[ShowStep]:
        """Yields what to call with the metrics, timings and findings of every step."""
        steps = experiment.config.train.steps
        masks, has_tools = (
            [part.name for part in experiment.objective.all(Mask)],
            bool(tool_keys(experiment.config.task)),
        )
        row = StepRow(steps, masks, has_tools)
        every = max(1, steps // 20) if self.console.is_terminal else 1
        with self._progress("training", "steps", completed=done, total=steps, timed=False) as (progress, task):

            def show(metrics: dict[str, Any], timings: dict[str, float], findings: Sequence[Detection]) -> None:
                line = row.text(metrics, timings)
                if row.shown == 1:
                    self.console.print(row.heading())
                if row.shown == 1 and metrics["truncated"] == 1:
                    self.console.print(f"warning: {_unended(experiment)}", style="bold red")
                if metrics["step"] % every == 0 or metrics["step"] in (done + 1, steps):
                    self.console.print(line)
                for finding in findings:
                    self.console.print(f"finding: {finding.summary}", style="bold yellow")
                progress.update(task, completed=metrics["step"])

            yield show

    def interrupted(self) -> None:
        """The step under way is finished first."""
        self.console.print(
            "interrupted: this step is finished and saved first; if the run is killed before, resume=true goes on from "
            "its last checkpoint; Ctrl-C again ends it at once"
        )

    def show_evaluations(
        self, decoding: Decoding, results: Mapping[str, Evaluation], paths: Sequence[Path], max_tokens: int
    ) -> None:
        """The figures of one decoding."""
        for table in results_tables(results, f"{decoding}, at most {max_tokens:,} tokens"):
            self.console.print(table)
        failed = sum(result.summary()["failed"] for result in results.values())
        if failed:
            self.console.print(f"{failed} gradings failed")
        for path in paths:
            self.console.print(f"responses  {path}", soft_wrap=True)

    @contextmanager
    def _progress(
        self, what: str, unit: str, completed: int = 0, total: int = 1, timed: bool = True
    ) -> Iterator[tuple[Progress, Any]]:
        columns: list[ProgressColumn] = [TextColumn(f"{what}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit)]
        if timed:  # the lines of steps say themselves how much time is left
            columns += [TimeRemainingColumn(), TextColumn("left")]
        with Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal) as progress:
            yield progress, progress.add_task(what, completed=completed, total=total)

    def conclude(self, outcome: Outcome) -> None:
        """Before and after, where the time went, and what to type next."""
        folder = outcome.folder
        self.console.print(figures_table(outcome))
        self.console.print("A held-out problem of median change in accuracy, and three responses before and after:")
        self.console.print(responses_table(outcome))
        self.console.print()
        if outcome.timings:
            self.console.print(_time_spent(outcome.timings, outcome.peak_flops))
            peak = f"{outcome.peak_flops / 1e9:,.0f} GFLOP/s in a matrix product"
            self.console.print(f"positions: tokens in forward passes; peak: {peak}")
        for cause in outcome.standstill:
            self.console.print(Text(f"not learning: {cause.summary}", style="bold red"))
        self._say("curves", str(folder.curves))
        self._say("metrics", str(folder.metrics))
        self._say("model", str(folder.last_checkpoint()))
        for i, command in enumerate(_next(outcome)):
            self._say("" if i else "next", shlex.join(command))

    def _say(self, label: str, text: str) -> None:
        """A line that can be copied, however long it is."""
        self.console.print(Text.assemble((f"{label:<9}", "bold"), text), soft_wrap=True)


def _unended(experiment: Experiment) -> str:
    """What was looked for where every response is cut."""
    limit = f"rollout.max_response_tokens={experiment.config.rollout.max_response_tokens}"
    return (
        f"every response was cut at {limit}: none had {experiment.tokenizer.ends}, which ends one; raise {limit}, or "
        f"name in the model's generation_config.json (eos_token_id) what it writes at its end"
    )


def _next(outcome: Outcome) -> Iterator[list[str]]:
    """What to type next: which tokens have a gradient, whether it is better than another, how good it is greedily."""
    config, folder = outcome.experiment.config, str(outcome.folder.path)
    objective = outcome.experiment.objective
    other = "dapo" if str(objective) == "grpo" else "grpo"
    if "logp_teacher" in objective.needs:  # the keys of a teacher are for every row, and each has to read it
        other = "grpo+opd(coefficient=0)"
    trust = [] if is_own(outcome.folder.config) else [f"trust={folder}"]
    yield ["rlzoo", "inspect", folder, *(trust if outside_names(flat(asdict(config))) else [])]
    yield ["rlzoo", "compare", other, config.objective, "seeds=0,1,2", *settings_of(config)]
    yield ["rlzoo", "eval", folder, "evaluation.decodings=0/1", *(trust if outside_names(keys_of_code(config)) else [])]


class StepRow:
    """One line of figures per step."""

    def __init__(self, steps: int, masks: Sequence[str], has_tools: bool = False) -> None:
        self.steps, self.masks, self.has_tools = steps, masks, has_tools
        self.started, self.shown, self.is_shaped = time.perf_counter(), 0, False

    def heading(self) -> str:
        """The names above the columns."""
        names = f"{'step':>9} {'reward':>7}" + (f" {'accuracy':>8}" if self.is_shaped else "")
        names += f" {'signal':>6} {'entropy':>7} {'length':>6} {'cut':>5} {'tokens/s':>8} {'left':>7}"
        return names + (f" {'masked':>8}" if self.masks else "")

    def text(self, metrics: dict[str, Any], timings: dict[str, float]) -> str:
        """The line of a step; signal: groups with one; cut: truncated; accuracy: if it is not the reward.

        With tools a second line says turns, calls, and tokens by who wrote them, means per response.
        """
        self.shown += 1
        self.is_shaped = metrics["accuracy"] != metrics["reward"] if self.shown == 1 else self.is_shaped
        step = metrics["step"]
        left = (time.perf_counter() - self.started) / self.shown * (self.steps - step)
        line = f"{step:>4}/{self.steps:<4} {metrics['reward']:7.3f}"
        line += f" {metrics['accuracy']:8.3f}" if self.is_shaped else ""
        line += f" {1 - metrics['groups_without_signal']:6.0%} {metrics['entropy']:7.3f} {metrics['length']:6.1f}"
        line += f" {metrics['truncated']:5.0%} {thousands(timings['tokens'] / timings['seconds']):>8} {clock(left):>7}"
        masked = sum(metrics.get(f"touched/{name}/tokens", 0.0) for name in self.masks)
        line += f" {masked:8.3%}" if self.masks else ""
        return line + (_turns(metrics) if self.has_tools else "") + _troubles(metrics)


def _turns(metrics: dict[str, Any]) -> str:
    """Means per response; its tokens by who wrote them."""
    turns, calls, failed = (metrics[name] for name in ("turns", "tool_calls", "tool_errors"))
    return (
        f"\n{turns:14.2f} turns, {calls:.2f} calls, {failed:.2f} failed; "
        f"tokens {metrics['length']:.4g} written, {metrics['tool_tokens']:.4g} heard"
    )


def _troubles(metrics: dict[str, Any]) -> str:
    counts = {
        ("update", "skipped"): metrics["updates_skipped"],
        ("grading", "timed out"): metrics["grading_timed_out"],
        ("grading", "failed"): metrics["grading_failed"],
    }
    return "".join(f"\n          {counted(int(count), noun)} {how}" for (noun, how), count in counts.items() if count)


def _time_spent(timings: Sequence[dict[str, float]], peak: float) -> Table:
    """Seconds, token positions and operations of each phase, per step; `peak` is what a matrix product reaches here."""
    steps, seconds = len(timings), sum(line["seconds"] for line in timings)
    tokens = sum(line["tokens"] for line in timings)
    rows: list[list[Shown]] = []
    for phase in PHASES:
        spent = sum(line[phase] for line in timings)
        positions = sum(line.get(f"{phase}_positions", 0) for line in timings)
        rates = ["", "", "", ""]
        if positions and spent:
            rate = sum(line[f"{phase}_flops"] for line in timings) / spent
            rates = [
                f"{positions / steps:,.0f}",
                thousands(positions / spent),
                f"{rate / 1e9:,.1f}",
                f"{rate / peak:.0%}",
            ]
        rows.append([phase, f"{spent / steps:.3f}", f"{spent / seconds:.0%}", *rates])
    heads = ("s/step", "share", "positions/step", "positions/s", "GFLOP/s", "of peak")
    title = f"{counted(steps, 'step')} in {clock(seconds)}, {thousands(tokens / seconds)} sampled tokens/s"
    total = ["all", f"{seconds / steps:.3f}", "100%", "", "", "", ""]
    return Table([Column("phase", is_text=True), *map(Column, heads)], rows, [total], title)


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss or m:ss."""
    minutes, second = divmod(int(seconds + 0.5), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02d}:{second:02d}" if hour else f"{minute}:{second:02d}"


def thousands(value: float) -> str:
    """A rate in three digits."""
    return f"{value / 1000:.1f}k" if value >= 1000 else f"{value:.0f}"
