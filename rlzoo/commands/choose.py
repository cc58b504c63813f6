"""`rlzoo choose`."""

import json
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlzoo.choosing.choose import Beginning, Choice

SUMMARY = "from what troubles you to objectives that address it, with what was measured of them"


def declare(parser: ArgumentParser) -> None:
    """What troubles a user."""
    trouble = "what troubles you: my entropy collapses at step 50; without words: all troubles, and where to begin"
    parser.add_argument("words", nargs="*", default=[], metavar="WORD", help=trouble)
    parser.add_argument("--all", action="store_true", help="every part that addresses it, not the first five")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def run(arguments: Namespace) -> None:
    """Answers, or lists what can be asked."""
    from rlzoo.choosing.choose import beginning, choose
    from rlzoo.choosing.evidence import shipped
    from rlzoo.report.choice import print_choice, print_troubles

    words = " ".join(arguments.words)
    if not words.strip():
        start = beginning(shipped())
        print(_as_json(start)) if arguments.json else print_troubles(start)
        return
    choice = choose(words)
    if arguments.json:
        print(_as_json(choice))
    else:
        print_choice(choice, most=len(choice.remedies) if arguments.all else 5)


def _as_json(choice: "Choice | Beginning") -> str:
    """With findings of verdicts by the words that they are."""
    return json.dumps(asdict(choice), indent=2, default=_words)


def _words(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    raise TypeError(f"{value!r} is no JSON")
