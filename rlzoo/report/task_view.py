"""What `rlzoo task` shows, in 80 columns."""

from collections.abc import Iterable
from statistics import mean, median

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from rlzoo.inspecting.task_look import TaskLook

PROMPTS, RESPONSES, LONGEST = 2, 4, 600
"""Prompts and responses that are shown, and how many characters of each."""


def print_task(look: TaskLook, console: Console | None = None) -> None:
    """Prompts, the grader's word, responses, lengths, and whether this can be learnt."""
    console = console or Console(highlight=False, markup=False)
    for number, problem in enumerate(look.problems[:PROMPTS], 1):
        console.print(
            f"prompt {number}, {problem.id}: {len(look.tokenizer.encode(problem.prompt))} tokens", style="bold"
        )
        console.print(_short(look.rendered(problem)))
        console.print(f"gold: {_short(look.gold_of(problem))}\n", style="dim")
    console.print(_grades(look))
    each = look.config.rollout.responses_per_prompt
    console.print(f"responses of {look.config.model.name}, {look.groups * each} of which are sampled", style="bold")
    for row in range(0, each * min(RESPONSES, look.groups), each):
        problem, sampled = look.sampled.problem_of(row), look.sampled
        console.print(_short(sampled.texts[row]) or "(empty)")
        grade = f"reward {sampled.reward[row]:g}, correctness {sampled.correct[row]:g}"
        said = f"gold: {_short(look.gold_of(problem), 60)}; {grade}"
        console.print(f"{said}, {sampled.outcomes[row]}, {int(sampled.rollouts.lengths[row])} tokens\n", style="dim")
    console.print(_figures(look))
    obstacles = look.obstacles
    console.print("this can be learnt" if not obstacles else "this will hardly be learnt:", style="bold")
    for obstacle in obstacles:
        console.print(f"- {obstacle}")


def _grades(look: TaskLook) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("the grader's word", "reward", "correct", "for example"):
        table.add_column(heading, justify="right" if heading in ("reward", "correct") else "left", overflow="fold")
    for probe in filter(None, (look.gold, look.wrong, look.empty)):
        table.add_row(probe.name, f"{probe.reward:.3g}", f"{probe.correct:.0%}", _short(probe.example, 60))
    return table


def _figures(look: TaskLook) -> Table:
    rollout, lengths = look.config.rollout, look.sampled.rollouts.lengths.tolist()
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    grid.add_row("problems", f"{len(look.task.train):,} to train on, {len(look.task.held_out):,} held out")
    if look.unanswered:
        grid.add_row("no answer", f"{look.unanswered:,} problems to train on; {look.without_gold} for them")
    grid.add_row("prompts", f"{_span(look.prompt_lengths)} tokens; at most {rollout.max_prompt_tokens:,} may be")
    grid.add_row("unknown", f"{look.unknown:,} of {look.tokens:,} prompt tokens are unknown to the tokenizer")
    grid.add_row(
        "responses", f"{_span(lengths)} tokens; {look.truncated:.0%} truncated at {rollout.max_response_tokens:,}"
    )
    grid.add_row("accuracy", f"{100 * mean(look.sampled.correct.tolist()):.1f} % of {len(lengths)} responses")
    grid.add_row("signal", f"{look.with_signal} of {look.groups} groups of {rollout.responses_per_prompt} responses")
    return grid


def _span(lengths: Iterable[int]) -> str:
    values = sorted(lengths)
    return f"{values[0]:,} to {values[-1]:,} (median {median(values):,g})"


def _short(text: str, longest: int = LONGEST) -> str:
    """The text, its middle left out if it is long."""
    half = longest // 2
    return text if len(text) <= longest else f"{text[:half]} [...] {text[-half:]}"
