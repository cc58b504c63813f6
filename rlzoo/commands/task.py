"""`rlzoo task`."""

from argparse import ArgumentParser, Namespace

from rlzoo.commands.completion import completed
from rlzoo.commands.key_table import key_table
from rlzoo.commands.train import FIRST
from rlzoo.config import Config, keys, load_config

SUMMARY = "show what a task asks, how it grades, and whether a model can learn it"
READ = ("model.", "task.", "rollout.", "seed")


def declare(parser: ArgumentParser) -> None:
    """Files and keys."""
    shared = [key for key in keys(Config) if key[0].startswith(READ)]
    parser.epilog = key_table(shared, FIRST)
    words = parser.add_argument(
        "words", nargs="*", default=[], metavar="CONFIG.yaml | key=value", help="as of rlzoo train; later ones win"
    )
    completed(words, shared)


def run(arguments: Namespace) -> None:
    """Looks at the task with the model that is to learn it."""
    from rlzoo.experiment.first_check import check_words

    config = load_config(arguments.words)
    check_words(config)  # before torch is imported, which takes seconds

    from rlzoo.inspecting.task_look import look_at_task
    from rlzoo.report.task_view import print_task

    print_task(look_at_task(config))
