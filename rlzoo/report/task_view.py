"""What `rlzoo task` shows, in 80 columns."""

from collections.abc import Callable, Iterable, Sequence
from statistics import mean, median
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from rlzoo.errors import printable
from rlzoo.experiment.experiment import counted
from rlzoo.inspecting.task_look import ReadToken, TaskLook
from rlzoo.report.table import Column, Table, pairs
from rlzoo.rollout.sampler import GradedRollouts
from rlzoo.tasks.forms import forms_said

PROMPTS, RESPONSES, LONGEST = 2, 4, 600
"""Prompts and responses that are shown, and how many characters of each."""
TOKENS, REASONS = 64, 20
"""Tokens of the first prompt that are shown, and rows that are left out whose reasons are given."""

TURN_FIGURES = ("turns", "tool_calls", "tool_errors", "tool_tokens")
"""What environments of several turns count."""


def print_task(look: TaskLook, console: Console | None = None) -> None:
    """Prompts, the grader's word, responses, lengths, and whether this can be learnt."""
    console = console or Console(highlight=False, markup=False)
    for number, problem in enumerate(look.problems[:PROMPTS], 1):
        tokens = look.read(problem)
        console.print(f"prompt {number}, {printable(problem.id)}: {len(tokens)} tokens", style="bold")
        console.print(_short(look.rendered(problem)))
        if number == 1:
            console.print(_tokens(tokens))
        console.print(f"gold: {_short(look.gold_of(problem))}\n", style="dim")
    console.print(_grades(look))
    each = look.config.rollout.responses_per_prompt
    console.print(f"responses of {look.config.model.name}, {look.groups * each} sampled in all", style="bold")
    sampled = look.sampled
    for first in range(0, each * min(RESPONSES, look.groups), each):
        row = max(range(first, first + each), key=_calls(sampled)) if has_turns(sampled) else first
        problem = sampled.problem_of(row)
        console.print(_short(written(sampled, row)) or "(empty)")
        console.print(f"gold: {_short(look.gold_of(problem), 60)}; {verdict(sampled, row)}\n", style="dim")
    console.print(_figures(look))
    obstacles = look.obstacles
    console.print("this can be learnt" if not obstacles else "this will hardly be learnt:", style="bold")
    for obstacle in obstacles:
        console.print(f"- {obstacle}")


def _tokens(tokens: Sequence[ReadToken]) -> Text:
    """Each with its id, and special ones in brackets; those in the middle are left out if there are many."""
    ends = [*tokens[: TOKENS // 2], None, *tokens[-TOKENS // 2 :]] if len(tokens) > TOKENS else tokens
    words = [("[...]", "dim") if token is None else _token(token) for token in ends]
    return Text(" ").join([Text("tokens:"), *(Text(text, style) for text, style in words)])


def _token(token: ReadToken) -> tuple[str, str]:
    return (f"{token.id}[{printable(token.text)}]", "bold") if token.is_special else (f"{token.id}{token.text!r}", "")


def as_data(look: TaskLook) -> dict[str, Any]:
    """What can be said without loading the model, for programs: the first prompt as it is read, and the counts."""
    first, *_ = look.problems
    tokens = look.read(first)
    return {
        "task": look.config.task.name,
        "model": look.config.model.name,
        "problem": first.id,
        "prompt": first.prompt,
        "ids": [token.id for token in tokens],
        "tokens": [token.text for token in tokens],
        "special": [token.is_special for token in tokens],
        "gold": first.answer,
        "train": len(look.task.train),
        "held_out": len(look.task.held_out),
        "dropped": len(look.dropped),
        "why_dropped": list(look.dropped[:REASONS]),
        "ends": sorted(look.tokenizer.stop_tokens),
    }


def written(sampled: GradedRollouts, row: int) -> str:
    """A response as it was written; of several turns all, with what stood between them."""
    return sampled.transcripts[row] if sampled.transcripts else sampled.texts[row]


def has_turns(sampled: GradedRollouts) -> bool:
    """Whether turns and calls were counted."""
    return sampled.figures.keys() >= set(TURN_FIGURES)


def _calls(sampled: GradedRollouts) -> Callable[[int], float]:
    return lambda row: float(sampled.figures["tool_calls"][row])


def verdict(sampled: GradedRollouts, row: int) -> str:
    """What a response earned, how it ended, and how long it was; of several turns how many, and what they called."""
    grade = f"reward {sampled.reward[row]:g}, correctness {sampled.correct[row]:g}, {sampled.outcomes[row]}"
    words = f"{grade}, {counted(int(sampled.rollouts.mask[row].sum()), 'token')}"
    if not has_turns(sampled):
        return words
    turns, calls, failed, heard = (int(sampled.figures[name][row]) for name in TURN_FIGURES)
    return f"{words} and {heard} heard in {counted(turns, 'turn')}, {counted(calls, 'call')}, {failed} failed"


def _grades(look: TaskLook) -> Table:
    columns = [Column("the grader's word", is_text=True), Column("reward"), Column("correct")]
    rows = [
        [probe.name, f"{probe.reward:.3g}", f"{probe.correct:.0%}", _short(probe.example, 60)]
        for probe in filter(None, (look.gold, look.wrong, look.empty))
    ]
    return Table([*columns, Column("for example", is_text=True)], rows)


def _figures(look: TaskLook) -> RenderableType:
    rollout, lengths = look.config.rollout, look.sampled.rollouts.lengths.tolist()
    lines = list[tuple[str, str]]()
    lines.append(("problems", f"{len(look.task.train):,} to train on, {len(look.task.held_out):,} held out"))
    for line in forms_said(look.problems, look.config.task):
        lines.append(("answers", line))
    if look.unanswered:
        lines.append(("no answer", f"{look.unanswered:,} problems to train on; {look.without_gold} for them"))
    if look.dropped:
        lines.append(("dropped", f"{counted(len(look.dropped), 'row')}: {look.dropped[0]}"))
    lines.append(("prompts", f"{_span(look.prompt_lengths)} tokens; at most {rollout.max_prompt_tokens:,} may be"))
    lines.append(("unknown", f"{look.unknown:,} of {look.tokens:,} prompt tokens are unknown to the tokenizer"))
    lines.append(
        ("responses", f"{_span(lengths)} tokens; {look.truncated:.0%} truncated at {rollout.max_response_tokens:,}")
    )
    if has_turns(look.sampled):
        turns, calls, failed, heard = (look.sampled.figures[name].mean().item() for name in TURN_FIGURES)
        lines.append(
            ("turns", f"{turns:.2f} a response, {calls:.2f} calls, {failed:.2f} failed; {heard:.1f} tokens heard")
        )
    lines.append(("accuracy", f"{100 * mean(look.sampled.correct.tolist()):.1f} % of {len(lengths)} responses"))
    lines.append(("signal", f"{look.with_signal} of {look.groups} groups of {rollout.responses_per_prompt} responses"))
    return pairs(lines)


def _span(lengths: Iterable[int]) -> str:
    values = sorted(lengths)
    return f"{values[0]:,} to {values[-1]:,} (median {median(values):,g})"


def _short(text: str, longest: int = LONGEST) -> str:
    """The text as a terminal may show it, its middle left out if it is long."""
    half = longest // 2
    return printable(text if len(text) <= longest else f"{text[:half]} [...] {text[-half:]}")
