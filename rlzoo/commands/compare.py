"""`rlzoo compare`."""

from argparse import ArgumentParser, Namespace

from rlzoo.commands.key_table import declare_words, key_table
from rlzoo.config.words import own_keys

SUMMARY = "train several objectives on several seeds and rank them"
WORDS = (
    "objectives; files and keys as of rlzoo train, besides the keys below; without train.schedule the learning rate "
    "falls to 0 (linear)"
)


def declare(parser: ArgumentParser) -> None:
    """Objectives, what is ablated, files and keys."""
    words = "EXPRESSION | CONFIG.yaml | key=value"
    declare_words(parser, "compare", words, WORDS, table=lambda: key_table(own_keys("compare")))
    parser.add_argument(
        "--ablate", action="append", default=[], metavar="EXPRESSION", help="it, and without each part in turn"
    )
    parser.set_defaults(after="the same command goes on where it stopped")


def run(arguments: Namespace) -> int:
    """Runs what is not done of the grid, then shows its leaderboard; 1 if a run failed."""
    from rlzoo.api import compare_words

    return 1 if compare_words(arguments.words, arguments.ablate).failures else 0
