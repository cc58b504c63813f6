"""`rlzoo leaderboard`."""

from argparse import ArgumentParser, Namespace

from rlzoo.commands.key_table import declare_words

SUMMARY = "compare runs that are done, or a table of results"


def declare(parser: ArgumentParser) -> None:
    """Folders and keys."""
    folders = (
        "folders of a run, of several runs, of a grid, or of an evaluation; or a .csv or .parquet file of any "
        "trainer's results, with the columns method, seed, problem, sample and value (from 0 to 1), a row a response"
    )
    declare_words(parser, "leaderboard", "RUN | GRID | EVALUATION | TABLE | key=value", folders, nargs="+")


def run(arguments: Namespace) -> None:
    """Shows the leaderboard of folders."""
    from rlzoo.api import leaderboard

    leaderboard(*arguments.words)
