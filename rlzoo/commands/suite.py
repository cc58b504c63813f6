"""`rlzoo suite`."""

from argparse import ArgumentParser, Namespace

from rlzoo.commands.key_table import declare_words

SUMMARY = "ask what objectives do about known troubles, in small trainings in which the truth is known"


def declare(parser: ArgumentParser) -> None:
    """Objectives, the experiments' own arms alone if there is none, and keys."""
    parser.set_defaults(after="what is done is kept; the same command goes on where it stopped")
    declare_words(
        parser, "suite", "EXPRESSION | key=value", "objectives beside the experiments' own arms", objectives=True
    )


def run(arguments: Namespace) -> int:
    """Trains what is not done, writes the tables and the page; 1 if a cell failed."""
    from rlzoo.api import suite_words

    return int(bool(suite_words(arguments.words).failures))
