"""`rlzoo push`."""

from argparse import ArgumentParser, Namespace

from rlzoo.commands.key_table import declare_words
from rlzoo.config import load_config
from rlzoo.config.command_keys import PushConfig

SUMMARY = "put a run's model with its card on the Hugging Face hub"


def declare(parser: ArgumentParser) -> None:
    """The run, where it goes, and keys."""
    parser.add_argument("folder", metavar="RUN", help="the folder of a run")
    parser.add_argument("name", metavar="HUB_NAME", help="OWNER/MODEL")
    declare_words(parser, "push", "key=value")


def run(arguments: Namespace) -> None:
    """Uploads the last checkpoint and says where it is."""
    config: PushConfig = load_config(arguments.words, PushConfig)

    from rlzoo.report.push import push

    print(push(arguments.folder, arguments.name, config))
