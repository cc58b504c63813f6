"""`rlzoo leaderboard`."""

from argparse import ArgumentParser, Namespace

from rlzoo.commands.completion import completed
from rlzoo.commands.key_table import key_table
from rlzoo.config import LeaderboardConfig, keys

SUMMARY = "compare runs that are done"


def declare(parser: ArgumentParser) -> None:
    """Folders and keys."""
    parser.epilog = key_table(keys(LeaderboardConfig))
    words = parser.add_argument(
        "words",
        nargs="+",
        metavar="RUN | GRID | EVALUATION | key=value",
        help="folders of a run, of several runs, of a grid, or of an evaluation",
    )
    completed(words, keys(LeaderboardConfig))


def run(arguments: Namespace) -> None:
    """Shows the leaderboard of folders."""
    from rlzoo.api import leaderboard

    leaderboard(*arguments.words)
