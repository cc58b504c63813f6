"""`rlzoo doctor`."""

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

SUMMARY = "what ails a run, from the numbers that it logged: named findings with evidence and error rates"


def declare(parser: ArgumentParser) -> None:
    """What is examined."""
    source = "the folder of a run, finished or not; a log of TRL or verl; files of a tracker; or a table"
    parser.add_argument("source", metavar="RUN", help=source)
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    parser.epilog = "The exit status is 0 if nothing is found, 1 if something is, 2 for a mistake."


def run(arguments: Namespace) -> int:
    """Says what is found; 1 if anything is."""
    from rlzoo.doctor.detectors import examine
    from rlzoo.doctor.readers import read_log
    from rlzoo.report.doctor import as_data, print_examination

    table, trainer = read_log(Path(arguments.source))
    examination = examine(table, trainer=trainer)
    if arguments.json:
        print(json.dumps(as_data(arguments.source, examination), indent=2))
    else:
        print_examination(arguments.source, examination)
    return 1 if examination.findings else 0
