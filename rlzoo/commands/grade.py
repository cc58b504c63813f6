"""`rlzoo grade`."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from rlzoo.commands.key_table import declare_words, key_table
from rlzoo.config import GradeConfig, keys, load_config

SUMMARY = "grade anybody's responses: lines with gold and response"


def declare(parser: ArgumentParser) -> None:
    """One file and keys."""
    table = (
        "Each line of FILE.jsonl is an object with `gold` and `response`, and if it likes `prompt`, `data_source` and\n"
        "`id`. It is written with `correct`, `answer` (what the response answers) and `outcome` besides.\n\n"
        + key_table(keys(GradeConfig))
    )
    parser.add_argument("file", metavar="FILE.jsonl", help="gold answers and responses")
    declare_words(parser, "grade", "key=value", table=table)


def run(arguments: Namespace) -> None:
    """Grades the lines and says how many are right."""
    config: GradeConfig = load_config(arguments.words, GradeConfig)

    from rlzoo.evaluation.grade_file import grade_file

    print(grade_file(Path(arguments.file), config))
