"""`rlzoo compare`."""

import sys
from argparse import ArgumentParser, Namespace

from rlzoo.commands import leaderboard
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
    from rlzoo.comparing.words import read_grid_words

    read_grid_words(arguments.words)  # wrong ones are said before torch is imported, which takes seconds

    from rlzoo.comparing.compare import compare
    from rlzoo.comparing.grid import Grid, read_grid
    from rlzoo.report.grid_view import GridView

    grid, jobs = read_grid(arguments.words, arguments.ablate)
    failures = compare(grid, jobs, GridView())
    for failure in failures:
        name = f"{failure.cell.objective} seed {failure.cell.seed}"
        print(f"rlzoo: {name} failed: {failure.message} ({failure.log})", file=sys.stderr)
    if failures:
        count = f"{len(failures)} of {len(Grid.load(grid.folder).cells)} runs failed"
        print(f"rlzoo: {count}; the same command tries them again", file=sys.stderr)
    leaderboard.show([str(grid.folder)])
    return 1 if failures else 0
