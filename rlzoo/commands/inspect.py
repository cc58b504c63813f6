"""`rlzoo inspect`."""

from argparse import ArgumentParser, Namespace

from rlzoo.commands.completion import completed
from rlzoo.commands.key_table import key_table
from rlzoo.config import InspectConfig, keys

SUMMARY = "show what an objective does to each token"


def declare(parser: ArgumentParser) -> None:
    """The run and keys."""
    parser.epilog = key_table(keys(InspectConfig))
    parser.add_argument("folder", metavar="RUN", help="the folder of a run")
    words = parser.add_argument("words", nargs="*", default=[], metavar="key=value", help="later ones win")
    completed(words, keys(InspectConfig))


def run(arguments: Namespace) -> None:
    """Looks at the run, writes the page and says where it is."""
    from rlzoo.api import inspect

    inspect(arguments.folder, *arguments.words)
