"""`rlzoo train`."""

from argparse import ArgumentParser, Namespace

from rlzoo.commands.completion import completed
from rlzoo.commands.key_table import key_table
from rlzoo.config import Config, keys, load_config, with_embedded_default

SUMMARY = "train a model with an objective"
FIRST = " (where neither a file nor another model is named,\nconfigs/arithmetic.yaml comes before your words)"


def declare(parser: ArgumentParser) -> None:
    """Files and keys."""
    parser.epilog = key_table(keys(Config), FIRST)
    words = parser.add_argument(
        "words", nargs="*", default=[], metavar="CONFIG.yaml | key=value", help="later ones win"
    )
    completed(words, keys(Config))


def run(arguments: Namespace) -> None:
    """Trains."""
    from rlzoo.experiment.first_check import check_words

    config = load_config(with_embedded_default(arguments.words))
    check_words(config)  # before torch is imported, which takes seconds

    from rlzoo.report.terminal import Terminal
    from rlzoo.training.run import train

    train(config, Terminal())
