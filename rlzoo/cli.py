"""The command line: train, eval, objectives, warmup."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from rlzoo.config import Config, keys
from rlzoo.errors import UserError


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; 0 done, 2 the user's mistake (said in one line), 130 interrupted."""
    from objectives import ObjectiveError  # here, because grader processes import this module and want no torch

    arguments = _parser().parse_args(argv)
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # where objective=grpo+my_module:my_part finds my_module
    run: Callable[[argparse.Namespace], None] = arguments.run
    try:
        run(arguments)
    except (UserError, ObjectiveError) as error:
        print(f"rlzoo: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nrlzoo: interrupted; resume=true goes on from the last checkpoint", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rlzoo", description="Reinforcement-learning objectives for LLM reasoning, compared fairly."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    train = _command(commands, "train", _train, "train a model with an objective", Config)
    train.add_argument("words", nargs="*", metavar="CONFIG.yaml | key=value", help="later ones win")
    evaluate = _command(commands, "eval", _evaluate, "evaluate a run or a model on held-out problems", Config)
    evaluate.add_argument("target", metavar="RUN_OR_MODEL", help="a run folder, a model folder, a hub name")
    evaluate.add_argument("words", nargs="*", metavar="CONFIG.yaml | key=value", help="later ones win")
    objectives = _command(commands, "objectives", _objectives, "show the zoo, an objective, or how two differ")
    objectives.add_argument(
        "expressions", nargs="*", metavar="EXPRESSION", help="e.g. 'stapo(tau_p=0.005)+clip_higher'"
    )
    objectives.add_argument("--json", action="store_true", help="as JSON, for programs")
    warmup = _command(commands, "warmup", _warmup, "make the embedded model by supervised warm-up")
    warmup.add_argument("words", nargs="*", metavar="key=value", help="later ones win")
    return parser


def _command(commands: Any, name: str, run: Any, summary: str, schema: type[Any] | None = None) -> Any:
    parser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=_key_table(schema) if schema else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def _key_table(schema: type[Any]) -> str:
    import textwrap

    lines = [
        "keys, with their defaults (where neither a file nor another model is named,",
        "configs/arithmetic.yaml comes before your words):",
    ]
    for name, default, doc in keys(schema):
        lines.append(f"  {name}={'' if default is None else default}")
        lines += textwrap.wrap(doc, width=78, initial_indent="      ", subsequent_indent="      ")
    return "\n".join(lines)


def _train(arguments: argparse.Namespace) -> None:
    from rlzoo.config import load_config, with_embedded_default
    from rlzoo.report.terminal import Terminal
    from rlzoo.run import train

    train(load_config(with_embedded_default(arguments.words)), Terminal())


def _evaluate(arguments: argparse.Namespace) -> None:
    from rlzoo.report.terminal import Terminal
    from rlzoo.run import evaluate_target

    evaluate_target(arguments.target, arguments.words, Terminal())


def _objectives(arguments: argparse.Namespace) -> None:
    from dataclasses import asdict

    from objectives import names, parse
    from rlzoo.report.zoo import difference, print_difference, print_objective, print_zoo

    written = arguments.expressions
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


def _warmup(arguments: argparse.Namespace) -> None:
    from rlzoo.config import load_config
    from rlzoo.report.terminal import Terminal
    from rlzoo.warmup import WarmupConfig, warmup

    config = load_config(arguments.words, WarmupConfig)
    terminal = Terminal()
    with terminal.warming_up(config.steps) as progress:
        metrics = warmup(config, progress)
    for name, value in metrics.items():
        terminal.console.print(f"{name:<20} {value:,.3f}".removesuffix(".000"))
    terminal.console.print(f"model                {config.output}", soft_wrap=True)
    terminal.console.print(f"next                 rlzoo train model.name={config.output}", soft_wrap=True)
