"""The command line: every command is the file of its name, which declares its words and runs it.

Grader processes import what was started, and so this package: commands import the domain only when they run. They read
their words first, as torch takes seconds to import and a wrong word should not.
"""

import argparse
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn, Protocol

from objectives import VERSION, ObjectiveError
from rlzoo.commands import (
    compare,
    doctor,
    eval,
    fit,
    grade,
    inspect,
    leaderboard,
    objectives,
    push,
    task,
    train,
)
from rlzoo.config.reading import option_as_word
from rlzoo.errors import Fault, PlainFormatter, UserError, bounded, fault_in, nearest, printable
from rlzoo.signals import heard, number_of


class Command(Protocol):
    """What the file of a command has."""

    @property
    def SUMMARY(self) -> str:
        """What it does, in a line."""
        ...

    def declare(self, parser: argparse.ArgumentParser) -> None:
        """Adds its words and keys."""
        ...

    def run(self, arguments: argparse.Namespace) -> int | None:
        """Does it; returns the exit status if that may be other than 0. Raises UserError or ObjectiveError."""
        ...


LABORATORY = "rlzoo.lab.commands"


@dataclass(frozen=True)
class Laboratory:
    """A command of the laboratory, whose module is imported only when the command is read."""

    name: str
    SUMMARY: str

    def declare(self, parser: argparse.ArgumentParser) -> None:
        """Adds its words and keys."""
        getattr(import_module(LABORATORY), f"declare_{self.name}")(parser)

    def run(self, arguments: argparse.Namespace) -> int | None:
        """Does it."""
        status: int | None = getattr(import_module(LABORATORY), f"{self.name}_command")(arguments)
        return status


COMMANDS: dict[str, Command] = {
    "train": train,
    "task": task,
    "eval": eval,
    "grade": grade,
    "compare": compare,
    "leaderboard": leaderboard,
    "inspect": inspect,
    "map": Laboratory(
        "map", "show what one update of each objective does, exactly, in a language of a few thousand responses"
    ),
    "suite": Laboratory(
        "suite", "ask what objectives do about known failure modes, in small trainings in which the truth is known"
    ),
    "fit": fit,
    "objectives": objectives,
    "doctor": doctor,
    "warmup": Laboratory("warmup", "make the embedded model by supervised warm-up"),
    "push": push,
}
REMOVED = {
    "completion": "rlzoo COMMAND --help lists its keys",
    "choose": "rlzoo objectives --for entropy_collapse shows what addresses a failure mode",
    "regrade": "rlzoo grade regrade=true FILE.jsonl grades kept responses again",
}
"""Command of an earlier version -> what to type instead."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command. Returns 0 on success, 1 for a fault or failed runs, 2 for a mistake of the user.

    Every error prints one line. So does a signal that ends the command; it gives 128 plus its number, 130 for Ctrl-C.
    """
    warnings.formatwarning = _plain_warning
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(PlainFormatter())
    after = "nothing is left half done"
    try:
        with heard():
            arguments = _read(sys.argv[1:] if argv is None else list(argv))
            after = getattr(arguments, "after", after)
            status: int | None = arguments.run(arguments)
            return status or 0
    except (UserError, ObjectiveError) as error:
        print(f"rlzoo: error: {printable(bounded(str(error)))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interruption:
        fault = interruption.__context__  # on its way here, if it is one
        said = str(interruption) or (str(fault) if isinstance(fault, Fault) else after)
        print(f"\nrlzoo: interrupted; {printable(bounded(said))}", file=sys.stderr)
        return 128 + number_of(interruption)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        message = str(error) if isinstance(error, Fault) else fault_in(error)
        if not message:
            raise
        print(f"rlzoo: {printable(bounded(message))}", file=sys.stderr)
        return 1


_format_warning = warnings.formatwarning


def _plain_warning(*arguments: Any, **options: Any) -> str:
    """Python's own, but for what would steer a terminal."""
    return printable(_format_warning(*arguments, **options))


def _read(words: list[str]) -> argparse.Namespace:
    """The arguments of a command line. Raises UserError for what is no command and no option."""
    words = ["--help"] if not words else [*words[1:], "--help"] if words[0] == "help" else words
    if words[0] in REMOVED:
        raise UserError(f"rlzoo {words[0]} was removed; {REMOVED[words[0]]}")
    if not words[0].startswith("-") and words[0] not in COMMANDS:
        raise UserError(f"there is no command {words[0]!r}{_meant_command(words[0])}")
    arguments, others = _parser(words[0]).parse_known_args(words)
    for option in others:
        if option.startswith("-"):
            meant = option_as_word(option, words[words.index(option) + 1 :])
            remedy = f"; keys are written so: {meant}" if meant else f"; rlzoo {words[0]} --help lists what there is"
            raise UserError(f"{option} is no option of rlzoo {words[0]}{remedy}")
    if others and not hasattr(arguments, "words"):
        raise UserError(f"rlzoo {words[0]} takes no further word: {others[0]!r}; leave it out")
    if others:  # words behind an option
        arguments.words = [*arguments.words, *others]
    return arguments


def _meant_command(word: str) -> str:
    if "=" in word or word.endswith((".yaml", ".yml")):
        return f"; did you mean rlzoo train {word}?"
    return nearest(word, COMMANDS, most=1) or f"; there are {', '.join(COMMANDS)}"


class _Parser(argparse.ArgumentParser):
    def format_help(self) -> str:
        if table := self.get_default("table"):
            self.epilog = table()
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; {self.prog} --help says what there is")


def _parser(command: str = "") -> argparse.ArgumentParser:
    """Reads the words of one command, or of all; the others are only named, as their tables of keys take time."""
    parser = _Parser(prog="rlzoo", description="Reinforcement-learning objectives for LLM reasoning, compared fairly.")
    parser.add_argument("--version", action="version", version=f"rlzoo {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, file in COMMANDS.items():
        subparser = commands.add_parser(
            name,
            help=file.SUMMARY,
            description=file.SUMMARY[0].upper() + file.SUMMARY[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        subparser.set_defaults(run=file.run)
        if command in ("", name):
            file.declare(subparser)
    return parser
