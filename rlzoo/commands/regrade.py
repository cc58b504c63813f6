"""`rlzoo regrade`."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from rlzoo.commands.key_table import declare_words
from rlzoo.config import RegradeConfig, TrustConfig, load_config, own_words

SUMMARY = "grade the kept responses of an evaluation again"


def declare(parser: ArgumentParser) -> None:
    """Files and keys."""
    declare_words(parser, "regrade", "FILE.jsonl | key=value", "files of an evaluation", nargs="+")


def run(arguments: Namespace) -> None:
    """Grades every file again."""
    from rlzoo.comparing.grid_words import is_setting

    settings = [word for word in arguments.words if is_setting(word) and not Path(word).is_file()]
    trusted, others = own_words(settings, TrustConfig)
    config: RegradeConfig = load_config(others, RegradeConfig)

    from rlzoo.evaluation.regrade import regrade
    from rlzoo.report.terminal import Terminal

    regrade([Path(word) for word in arguments.words if word not in settings], config, Terminal(), trusted.trust)
