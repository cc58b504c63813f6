"""`rlzoo task by_hand=true`: what the model would read is printed, and what it would write is typed."""

from collections.abc import Iterator

from rich.console import Console

from rlzoo.config import Config
from rlzoo.inspecting.by_hand import episodes_by_hand
from rlzoo.report.table import plain_console
from rlzoo.report.task_view import verdict

_HELP = "You are the model. Enter ends a turn, a backslash before it only the line; Ctrl-D ends it all."


def try_by_hand(config: Config, console: Console | None = None) -> None:
    """Problem after problem, until standard input ends. Raises UserError for what cannot be had or used."""
    console = console or plain_console()

    def begin(number: int) -> None:
        console.print(f"\nproblem {number}", style="bold")

    def write(shown: str) -> str:
        console.print(shown, style="dim", soft_wrap=True)
        return "\n".join(_lines())

    console.print(_HELP, style="bold")
    try:
        for graded in episodes_by_hand(config, write, begin):
            problem = graded.problem_of(0)
            gold = f"gold: {problem.answer}; " if problem.answer else ""
            console.print(f"{gold}{verdict(graded, 0)}", soft_wrap=True)
    except EOFError:
        console.print()


def _lines() -> Iterator[str]:
    """The lines of a turn. Raises EOFError where the input ends."""
    line = input("> ")
    while line.endswith("\\"):
        yield line[:-1]
        line = input("  ")
    yield line
