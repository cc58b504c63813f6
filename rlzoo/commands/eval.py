"""`rlzoo eval`."""

from argparse import ArgumentParser, Namespace

from rlzoo.commands.key_table import declare_words

SUMMARY = "evaluate a run or a model on its held-out problems or on named benchmarks"


def declare(parser: ArgumentParser) -> None:
    """What is evaluated, files and keys."""
    parser.add_argument("target", metavar="RUN_OR_MODEL", help="a run folder, a model folder, a hub name")
    parser.set_defaults(after="whole batches are kept; the same command goes on after the last")
    declare_words(parser, "eval")


def run(arguments: Namespace) -> None:
    """Evaluates with every decoding."""
    from rlzoo.api import evaluate

    evaluate(arguments.target, *arguments.words)
