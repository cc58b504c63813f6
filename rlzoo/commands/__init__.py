"""The command line: every command is the file of its name, which declares its words and runs it.

Grader processes import what was started, and so this package: commands import the domain only when they run.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from rlzoo.commands import compare, eval, grade, inspect, leaderboard, objectives, regrade, train, warmup
from rlzoo.errors import UserError


class Command(Protocol):
    """What the file of a command has."""

    SUMMARY: str
    """What it does, in a line."""

    def declare(self, parser: argparse.ArgumentParser) -> None:
        """Adds its words and keys."""
        ...

    def run(self, arguments: argparse.Namespace) -> int | None:
        """Does it; returns the exit status if that may be other than 0. Raises UserError or ObjectiveError."""
        ...


COMMANDS: dict[str, Command] = {
    "train": train,
    "eval": eval,
    "regrade": regrade,
    "grade": grade,
    "compare": compare,
    "leaderboard": leaderboard,
    "inspect": inspect,
    "objectives": objectives,
    "warmup": warmup,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; 0 done, 1 a run of a grid failed, 2 the user's mistake (said in one line), 130 interrupted."""
    from objectives import ObjectiveError

    arguments = _parser().parse_args(argv)
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # where objective=grpo+my_module:my_part finds my_module
    run: Callable[[argparse.Namespace], int | None] = arguments.run
    try:
        return run(arguments) or 0
    except (UserError, ObjectiveError) as error:
        print(f"rlzoo: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\nrlzoo: interrupted; {arguments.after}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rlzoo", description="Reinforcement-learning objectives for LLM reasoning, compared fairly."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        own = commands.add_parser(
            name,
            help=command.SUMMARY,
            description=command.SUMMARY[0].upper() + command.SUMMARY[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        own.set_defaults(run=command.run, after="nothing is left half done")
        command.declare(own)
    return parser
