"""`rlzoo leaderboard`."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from rlzoo.commands.completion import completed
from rlzoo.commands.key_table import key_table
from rlzoo.config import LeaderboardConfig, keys, load_config
from rlzoo.errors import UserError

SUMMARY = "compare runs that are done"


def declare(parser: ArgumentParser) -> None:
    """Folders and keys."""
    parser.epilog = key_table(keys(LeaderboardConfig))
    words = parser.add_argument(
        "words", nargs="+", metavar="RUN | GRID | key=value", help="folders of a run, of several runs, or of a grid"
    )
    completed(words, keys(LeaderboardConfig))


def run(arguments: Namespace) -> None:
    """Shows the leaderboard of folders."""
    show(arguments.words)


def show(words: Sequence[str]) -> None:
    """The leaderboard of the folders among the words. Raises UserError or ObjectiveError if they cannot be compared."""
    from rlzoo.comparing.words import is_setting

    folders = [word for word in words if not is_setting(word)]
    config: LeaderboardConfig = load_config([word for word in words if is_setting(word)], LeaderboardConfig)
    if not folders:
        raise UserError("name a grid or runs, for example: rlzoo leaderboard runs/compare")
    if not 0 <= config.equivalence <= 100:
        raise UserError(f"equivalence={config.equivalence:g} must be from 0 to 100, in points")

    from rlzoo.comparing.default_folder import GRID
    from rlzoo.comparing.finished_runs import read_runs
    from rlzoo.comparing.grid import Grid
    from rlzoo.comparing.leaderboard import make_leaderboard
    from rlzoo.comparing.sequential import looks
    from rlzoo.report.leaderboard_page import show_leaderboard

    runs, baseline, notes = read_runs(folders)
    grids = [Grid.load(Path(name)) for name in folders if (Path(name) / GRID).exists()]
    looked = max((len(looks(grid.up_to)) for grid in grids), default=1)
    board = make_leaderboard(runs, config.baseline or baseline, config.title, notes, config.equivalence, looked)
    of_one_grid = len(folders) == 1 and (Path(folders[0]) / GRID).exists()
    show_leaderboard(board, Path(config.output or (folders[0] if of_one_grid else "runs/leaderboard")))
