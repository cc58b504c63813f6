"""`rlzoo inspect`."""

from argparse import ArgumentParser, Namespace

from rlzoo.commands.key_table import declare_words

SUMMARY = "show what an objective does to each token"


def declare(parser: ArgumentParser) -> None:
    """The run and keys."""
    parser.add_argument("folder", metavar="RUN", help="the folder of a run")
    declare_words(parser, "inspect", "key=value")


def run(arguments: Namespace) -> None:
    """Looks at the run, writes the page and says where it is."""
    from rlzoo.api import inspect

    inspect(arguments.folder, *arguments.words)
