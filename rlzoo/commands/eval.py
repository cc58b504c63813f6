"""`rlzoo eval`."""

from argparse import ArgumentParser, Namespace

from rlzoo.commands.completion import completed
from rlzoo.commands.key_table import key_table
from rlzoo.config import EVALUATION_KEYS, BenchmarksConfig, Config, keys

SUMMARY = "evaluate a run or a model on its held-out problems or on named benchmarks"


def declare(parser: ArgumentParser) -> None:
    """What is evaluated, files and keys."""
    shared = [key for key in keys(Config) if key[0].startswith(EVALUATION_KEYS) and key[0] != "model.name"]
    shared = [*keys(BenchmarksConfig), *shared]
    parser.epilog = key_table(shared)
    parser.add_argument("target", metavar="RUN_OR_MODEL", help="a run folder, a model folder, a hub name")
    words = parser.add_argument(
        "words", nargs="*", default=[], metavar="CONFIG.yaml | key=value", help="later ones win"
    )
    completed(words, shared)


def run(arguments: Namespace) -> None:
    """Evaluates with every decoding."""
    from rlzoo.api import evaluate

    evaluate(arguments.target, *arguments.words)
