"""`rlzoo choose`."""

import json
from argparse import ArgumentParser, Namespace
from dataclasses import asdict

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
        print(json.dumps(asdict(start), indent=2)) if arguments.json else print_troubles(start)
        return
    choice = choose(words)
    if arguments.json:
        print(json.dumps(asdict(choice), indent=2))
    else:
        print_choice(choice, most=len(choice.remedies) if arguments.all else 5)
