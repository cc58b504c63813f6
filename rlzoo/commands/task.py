"""`rlzoo task`."""

import json
from argparse import ArgumentParser, Namespace

from rlzoo.commands.key_table import declare_words, key_table
from rlzoo.commands.train import FIRST
from rlzoo.config import load_config
from rlzoo.config.words import check_effect, keys_of

SUMMARY = "show what a task asks, how it grades, and whether a model can learn it"


def declare(parser: ArgumentParser) -> None:
    """Files and keys."""
    words = "as of rlzoo train; later ones win"
    declare_words(parser, "task", help=words, table=lambda: key_table(keys_of("task"), FIRST))
    help = "the first prompt's tokens, its gold answer and the counts as JSON, for programs; no model is loaded"
    parser.add_argument("--json", action="store_true", help=help)


def run(arguments: Namespace) -> None:
    """Looks at the task with the model that is to learn it."""
    from rlzoo.experiment.check import check_words

    check_effect("task", arguments.words)
    config = load_config(arguments.words)
    check_words(config)  # before torch is imported, which takes seconds

    from rlzoo.inspecting.task_look import look_at_task
    from rlzoo.report.task_view import as_data, print_task

    look = look_at_task(config)
    if arguments.json:
        print(json.dumps(as_data(look), indent=2))
    else:
        print_task(look)
