"""`rlzoo objectives`."""

import json
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from typing import Any

from rlzoo.commands.completion import completed
from rlzoo.config.zoo_names import check_names
from rlzoo.errors import UserError, nearest
from rlzoo.peers import PEERS

SUMMARY = "show the zoo, an objective, or how two differ; translate to and from other libraries"


def declare(parser: ArgumentParser) -> None:
    """Up to two expressions, or the file of another library."""
    words = parser.add_argument(
        "words", nargs="*", default=[], metavar="EXPRESSION", help="e.g. 'stapo(tau_p=0.005)+clip_higher'"
    )
    completed(words, (), objectives=True)
    parser.add_argument("--search", metavar="WORD", default="", help="only what mentions it")
    parser.add_argument(
        "--from", dest="source", metavar="LIBRARY", help=f"the expression for a file of settings of {', '.join(PEERS)}"
    )
    parser.add_argument("--to", dest="target", metavar="LIBRARY", help="the settings there for an expression")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def run(arguments: Namespace) -> None:
    """Shows what is asked for. Raises UserError for more than two expressions."""
    if arguments.source or arguments.target:
        _translate(arguments)
        return
    for expression in arguments.words:
        check_names(expression)

    from objectives import described, names, parse
    from rlzoo.report.zoo import difference, found, print_difference, print_objective, print_zoo

    written = arguments.words
    parsed = [parse(expression) for expression in written]
    if len(parsed) > 2 or (parsed and arguments.search):
        raise UserError(
            "rlzoo objectives shows the zoo, what mentions a --search WORD of it, one objective, or the difference of "
            f"two, not {len(parsed)}{' and --search' if arguments.search else ''}"
        )
    if arguments.json:
        pages = [described(objective) for objective in parsed]
        shown: Any = [asdict(name) for name in found(names(), arguments.search)] if not parsed else pages[0]
        if len(parsed) == 2:
            shown = {"first": pages[0], "second": pages[1], "difference": difference(parsed[0], parsed[1])}
        print(json.dumps(shown, indent=2))
    elif not parsed:
        print_zoo(found(names(), arguments.search))
    elif len(parsed) == 1:
        print_objective(written[0], parsed[0])
    else:
        print_difference(parsed[0], parsed[1])


def _translate(arguments: Namespace) -> None:
    """From, or to, another library."""
    name = arguments.source or arguments.target
    asked, what = ("--from", "CONFIG.yaml") if arguments.source else ("--to", "EXPRESSION")
    if name not in PEERS:
        raise UserError(f"{asked} {name} is not one of {', '.join(PEERS)}{nearest(name, PEERS, most=1)}")
    if (arguments.source and arguments.target) or arguments.search:
        raise UserError(f"{asked} stands alone: --from, --to and --search are three questions")
    if len(arguments.words) != 1:
        raise UserError(f"{asked} {name} takes one {what}, not {len(arguments.words)}")
    (word,) = arguments.words
    if arguments.target:
        check_names(word)

    from objectives import parse
    from rlzoo.peers.translate import from_peer, load, to_peer
    from rlzoo.report.translation import print_translation

    translation = from_peer(name, load(word)) if arguments.source else to_peer(name, parse(word))
    if arguments.json:
        print(json.dumps(asdict(translation), indent=2))
    else:
        print_translation(translation, settings=bool(arguments.target))
