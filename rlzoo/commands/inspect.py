"""`rlzoo inspect`."""

from argparse import ArgumentParser, Namespace

from rlzoo.commands.completion import completed
from rlzoo.commands.key_table import key_table
from rlzoo.config import InspectConfig, keys, load_config

SUMMARY = "show what an objective does to each token"


def declare(parser: ArgumentParser) -> None:
    """The run and keys."""
    parser.epilog = key_table(keys(InspectConfig))
    parser.add_argument("folder", metavar="RUN", help="the folder of a run")
    words = parser.add_argument("words", nargs="*", default=[], metavar="key=value", help="later ones win")
    completed(words, keys(InspectConfig))


def run(arguments: Namespace) -> None:
    """Looks at the run, writes the page and says where it is."""
    config = load_config(arguments.words, InspectConfig)

    from rlzoo.inspecting.microscope import inspect_run
    from rlzoo.report.microscope_page import show_microscope

    show_microscope(inspect_run(arguments.folder, config))
