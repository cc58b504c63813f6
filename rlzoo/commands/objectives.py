"""`rlzoo objectives`."""

import json
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from typing import Any

from rlzoo.commands.completion import completed
from rlzoo.config.zoo_names import check_names
from rlzoo.errors import UserError

SUMMARY = "show the zoo, an objective, or how two differ"


def declare(parser: ArgumentParser) -> None:
    """Up to two expressions."""
    words = parser.add_argument(
        "words", nargs="*", default=[], metavar="EXPRESSION", help="e.g. 'stapo(tau_p=0.005)+clip_higher'"
    )
    completed(words, (), objectives=True)
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def run(arguments: Namespace) -> None:
    """Shows what is asked for. Raises UserError for more than two expressions."""
    for expression in arguments.words:
        check_names(expression)

    from objectives import names, parse
    from rlzoo.report.zoo import difference, print_difference, print_objective, print_zoo

    written = arguments.words
    parsed = [parse(expression) for expression in written]
    if len(parsed) > 2:
        raise UserError(f"rlzoo objectives shows the zoo, one objective or the difference of two, not {len(parsed)}")
    if arguments.json:
        described = [objective.describe() for objective in parsed]
        shown: Any = [asdict(name) for name in names()] if not parsed else described[0]
        if len(parsed) == 2:
            shown = {"first": described[0], "second": described[1], "difference": difference(parsed[0], parsed[1])}
        print(json.dumps(shown, indent=2))
    elif not parsed:
        print_zoo(names())
    elif len(parsed) == 1:
        print_objective(written[0], parsed[0])
    else:
        print_difference(parsed[0], parsed[1])
