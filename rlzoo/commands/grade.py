"""`rlzoo grade`."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from rlzoo.commands.key_table import declare_words, key_table
from rlzoo.config.command_keys import GradeConfig, TrustConfig
from rlzoo.config.reading import load_config, own_words
from rlzoo.config.words import keys_of
from rlzoo.errors import UserError

SUMMARY = "grade anybody's responses, or again what an evaluation has kept"


def declare(parser: ArgumentParser) -> None:
    """Files and keys."""
    rows = (
        "Each line of FILE.jsonl is an object with `gold` and `response`, and if it likes `prompt`, `data_source` and\n"
        "`id`. It is written with `correct`, `answer` (what the response answers) and `outcome` besides.\n\n"
    )
    words = "FILE.jsonl | key=value"
    declare_words(parser, "grade", words, "responses", nargs="+", table=lambda: rows + key_table(keys_of("grade")))


def run(arguments: Namespace) -> None:
    """Grades the lines and says how many are right, or which grades of kept responses have changed."""
    from rlzoo.comparing.grid_words import is_setting

    settings = [word for word in arguments.words if is_setting(word) and not Path(word).is_file()]
    files = [Path(word) for word in arguments.words if word not in settings]
    trusted, others = own_words(settings, TrustConfig)
    config: GradeConfig = load_config(others, GradeConfig)
    if not files or (len(files) > 1 and not config.regrade):
        raise UserError("rlzoo grade takes one file, FILE.jsonl; with regrade=true several of kept responses")
    if trusted.trust and not config.regrade:
        raise UserError(f"trust={trusted.trust[0]} has no effect on lines with gold and response; leave it out")

    from rlzoo.evaluation.grade_file import grade_file, regrade

    if not config.regrade:
        return print(grade_file(files[0], config))

    from rlzoo.report.evaluation import print_regraded

    for regraded in regrade(files, config, trusted.trust):
        print_regraded(regraded)
