"""`rlzoo regrade`."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from rlzoo.commands.completion import completed
from rlzoo.commands.key_table import key_table
from rlzoo.config import RegradeConfig, keys, load_config

SUMMARY = "grade the kept responses of an evaluation again"


def declare(parser: ArgumentParser) -> None:
    """Files and keys."""
    parser.epilog = key_table(keys(RegradeConfig))
    words = parser.add_argument("words", nargs="+", metavar="FILE.jsonl | key=value", help="files of an evaluation")
    completed(words, keys(RegradeConfig))


def run(arguments: Namespace) -> None:
    """Grades every file again."""
    from rlzoo.comparing.words import is_setting

    settings = [word for word in arguments.words if is_setting(word) and not Path(word).is_file()]
    config: RegradeConfig = load_config(settings, RegradeConfig)

    from rlzoo.evaluation.regrade import regrade
    from rlzoo.report.terminal import Terminal

    regrade([Path(word) for word in arguments.words if word not in settings], config, Terminal())
