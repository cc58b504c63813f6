"""`rlzoo compare`."""

from argparse import ArgumentParser, Namespace

from rlzoo.commands.completion import completed
from rlzoo.commands.key_table import key_table
from rlzoo.config import Config, GridConfig, keys

SUMMARY = "train several objectives on several seeds and rank them"
WORDS = "objectives; files and keys as of rlzoo train, besides the keys below"


def declare(parser: ArgumentParser) -> None:
    """Objectives, what is ablated, files and keys."""
    parser.epilog = key_table(keys(GridConfig))
    words = parser.add_argument(
        "words", nargs="*", default=[], metavar="EXPRESSION | CONFIG.yaml | key=value", help=WORDS
    )
    completed(words, [*keys(GridConfig), *keys(Config)], objectives=True)
    parser.add_argument(
        "--ablate", action="append", default=[], metavar="EXPRESSION", help="it, and without each part in turn"
    )
    parser.set_defaults(after="the same command goes on where it stopped")


def run(arguments: Namespace) -> int:
    """Runs what is not done of the grid, then shows its leaderboard; 1 if a run failed."""
    from rlzoo.api import compare_words

    return 1 if compare_words(arguments.words, arguments.ablate).failures else 0
