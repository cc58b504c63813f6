"""`rlzoo objectives`."""

import json
import sys
import textwrap
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from typing import Any

from objectives import FAILURE_MODES, names, parse, with_examples
from objectives.peers import PEERS, REMOVED
from rlzoo.errors import UserError, nearest

SUMMARY = "show the zoo, an objective, or how two differ; translate to and from other libraries"


def declare(parser: ArgumentParser) -> None:
    """Up to two expressions, or the file of another library."""
    parser.add_argument(
        "words", nargs="*", default=[], metavar="EXPRESSION", help="e.g. 'stapo(tau_p=0.005)+clip_higher'"
    )
    parser.add_argument("--search", metavar="WORD", default="", help="only what mentions it")
    parser.add_argument("--all", action="store_true", help="what each part does, too")
    parser.add_argument(
        "--for",
        dest="failure_mode",
        metavar="FAILURE_MODE",
        nargs="?",
        const="",
        help="what addresses it, with what the suite measured: entropy_collapse, ...; without a name, lists them",
    )
    parser.add_argument(
        "--from",
        dest="source",
        metavar="LIBRARY",
        help=f"the expression for a script or a file of settings of {', '.join(PEERS)}",
    )
    parser.add_argument("--to", dest="target", metavar="LIBRARY", help="the settings there for an expression")
    parser.add_argument(
        "--provenance", action="store_true", help="what each method was held against, or those of an EXPRESSION"
    )
    parser.add_argument(
        "--check", action="store_true", help="whether EXPRESSIONs keep the laws that every trainer relies on"
    )
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def run(arguments: Namespace) -> None:
    """Shows what is asked for. Raises UserError for more than two expressions."""
    if arguments.source or arguments.target:
        _translate(arguments)
        return
    if arguments.failure_mode is not None:
        _show_remedies(arguments)
        return
    if arguments.provenance:
        _provenance(arguments)
        return
    if arguments.check:
        _check(arguments)
        return
    written = arguments.words
    if len(written) > 2 or (written and arguments.search):
        raise UserError(
            "rlzoo objectives shows the zoo, what mentions a --search WORD of it, one objective, or the difference of "
            f"two, not {len(written)}{' and --search' if arguments.search else ''}"
        )
    if arguments.all and (written or arguments.search or arguments.json):
        raise UserError("--all is of the whole zoo: rlzoo objectives --all")
    parsed = [parse(word if arguments.json else _with_values(word)) for word in written]

    from rlzoo.report.zoo import difference, found, print_difference, print_objective, print_zoo

    if arguments.json:
        pages = [objective.describe() for objective in parsed]
        shown: Any = [asdict(name) for name in found(names(), arguments.search)] if not parsed else pages[0]
        if len(parsed) == 2:
            shown = {"first": pages[0], "second": pages[1], "difference": difference(parsed[0], parsed[1])}
        print(json.dumps(shown, indent=2))
    elif not parsed:
        print_zoo(found(names(), arguments.search), whole=bool(arguments.search or arguments.all))
    elif len(parsed) == 1:
        print_objective(written[0], parsed[0])
    else:
        print_difference(parsed[0], parsed[1])


def _with_values(word: str) -> str:
    """The expression to show. A name whose required values are missing gets example values, and a line names them."""
    name = next((name for name in names() if name.name == word and name.required_parameters), None)
    if name is None:
        return word
    expression, asked = with_examples(name), " and ".join(name.required_parameters)
    print(f"{word} asks for {asked}, for which we know no published value; {expression} is an example", file=sys.stderr)
    return expression


def _show_remedies(arguments: Namespace) -> None:
    """Shows what addresses a failure mode, or all failure modes."""
    from rlzoo.report.failure_modes import addressing, print_failure_modes, print_remedies

    if arguments.words or arguments.search:
        raise UserError("--for stands alone: rlzoo objectives --for entropy_collapse")
    if arguments.json:
        remedies = [asdict(remedy) for remedy in addressing(arguments.failure_mode)] if arguments.failure_mode else []
        print(json.dumps(remedies if arguments.failure_mode else FAILURE_MODES, indent=2))
    elif arguments.failure_mode:
        print_remedies(arguments.failure_mode)
    else:
        print_failure_modes()


def _provenance(arguments: Namespace) -> None:
    """The table of sources, of all recipes or of those that are written."""
    from objectives import read_terms
    from rlzoo.report.provenance import MISSING, PROVENANCE
    from rlzoo.report.zoo import print_provenance

    if arguments.search:
        raise UserError(
            "--provenance and --search are two questions: name recipes instead, rlzoo objectives grpo --provenance"
        )
    written = {term.name for word in arguments.words for term in read_terms(word)}
    rows = [row for row in PROVENANCE if not written or row.recipe in written]
    if not rows:
        raise UserError(f"--provenance: {' '.join(arguments.words)} names no recipe of the zoo's own")
    if arguments.json:
        print(json.dumps({"held": [asdict(row) for row in rows], "missing": {} if written else MISSING}, indent=2))
    else:
        print_provenance(rows, {} if written else MISSING)


def _check(arguments: Namespace) -> None:
    """Says that each expression keeps the laws. Raises UserError for the first that breaks one."""
    if arguments.search or arguments.json or not arguments.words:
        raise UserError("--check takes expressions alone: rlzoo objectives --check grpo+my_module:my_part")

    from objectives.contract import LAWS
    from rlzoo.config import RolloutConfig
    from rlzoo.experiment.trial import LENGTH, oddities, try_objective

    for objective in map(parse, arguments.words):
        sizes = [size for size in (2, 8) if objective.minimum_group <= size]
        rollouts = [RolloutConfig(responses_per_prompt=size, max_response_tokens=LENGTH) for size in sizes]
        for rollout in rollouts:
            try_objective(objective, rollout, laws=True)
        _say(f"{objective}: keeps the laws on small batches: {LAWS}")
        for line in oddities(objective, rollouts[-1]):
            _say(f"but {line}")


def _say(text: str) -> None:
    print(textwrap.fill(text, 80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))


def _translate(arguments: Namespace) -> None:
    """From, or to, another library."""
    name = arguments.source or arguments.target
    asked, what = ("--from", "CONFIG.yaml") if arguments.source else ("--to", "EXPRESSION")
    if name in REMOVED:
        raise UserError(f"{asked} {name}: the translation was removed; {' and '.join(PEERS)} are left")
    if name not in PEERS:
        raise UserError(f"{asked} {name} is not one of {', '.join(PEERS)}{nearest(name, PEERS, most=1)}")
    if (arguments.source and arguments.target) or arguments.search:
        raise UserError(f"{asked} stands alone: --from, --to and --search are three questions")
    if len(arguments.words) != 1:
        raise UserError(f"{asked} {name} takes one {what}, not {len(arguments.words)}")
    (word,) = arguments.words

    from objectives.peers.translate import from_peer, to_peer
    from rlzoo.config.peer_settings import program_in
    from rlzoo.report.zoo import print_translation

    translation = (
        from_peer(name, *_settings_in(name, word), program_in(word)) if arguments.source else to_peer(name, parse(word))
    )
    if arguments.json:
        print(json.dumps(asdict(translation), indent=2))
    else:
        print_translation(translation, settings=bool(arguments.target))


def _settings_in(name: str, path: str) -> tuple[dict[str, Any], list[str]]:
    """The settings in a file, and those of the library's objective whose value a script does not say."""
    from rlzoo.config.peer_settings import UNKNOWN, settings_in

    table, settings = PEERS[name], settings_in(path)
    undecided = [
        key
        for key, value in settings.items()
        if UNKNOWN in str(value) and table.other_names.get(key.lstrip("+"), key.lstrip("+")) in table.defaults
    ]
    known = {key: value for key, value in settings.items() if key not in undecided}
    shown = {key: value.replace(UNKNOWN, "?") if isinstance(value, str) else value for key, value in known.items()}
    return shown, undecided
