"""The command line: train, eval, regrade, compare, leaderboard, inspect, objectives, warmup."""

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Any

from rlzoo.config import (
    EVALUATION_KEYS,
    BenchmarksConfig,
    Config,
    GridConfig,
    InspectConfig,
    LeaderboardConfig,
    RegradeConfig,
    keys,
)
from rlzoo.errors import UserError

EVALUATE_WORDS = "later ones win"
COMPARE_WORDS = "objectives; files and keys as of rlzoo train, besides the keys below"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; 0 done, 1 a run of a grid failed, 2 the user's mistake (said in one line), 130 interrupted."""
    from objectives import ObjectiveError  # here, because grader processes import this module and want no torch

    arguments = _parser().parse_args(argv)
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # where objective=grpo+my_module:my_part finds my_module
    run: Callable[[argparse.Namespace], int | None] = arguments.run
    try:
        return run(arguments) or 0
    except (UserError, ObjectiveError) as error:
        print(f"rlzoo: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\nrlzoo: interrupted; {arguments.after}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rlzoo", description="Reinforcement-learning objectives for LLM reasoning, compared fairly."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    train = _command(commands, "train", _train, "train a model with an objective", Config)
    train.add_argument("words", nargs="*", metavar="CONFIG.yaml | key=value", help="later ones win")
    train.set_defaults(after="resume=true goes on from the last checkpoint")
    evaluate = _command(
        commands,
        "eval",
        _evaluate,
        "evaluate a run or a model on its held-out problems or on named benchmarks",
        BenchmarksConfig,
    )
    evaluate.add_argument("target", metavar="RUN_OR_MODEL", help="a run folder, a model folder, a hub name")
    evaluate.add_argument("words", nargs="*", metavar="CONFIG.yaml | key=value", help=EVALUATE_WORDS)
    regrade = _command(commands, "regrade", _regrade, "grade the kept responses of an evaluation again", RegradeConfig)
    regrade.add_argument("words", nargs="+", metavar="FILE.jsonl | key=value", help="files of an evaluation")
    compare = _command(
        commands, "compare", _compare, "train several objectives on several seeds and rank them", GridConfig
    )
    compare.add_argument("words", nargs="*", metavar="EXPRESSION | CONFIG.yaml | key=value", help=COMPARE_WORDS)
    compare.add_argument(
        "--ablate",
        action="append",
        default=[],
        metavar="EXPRESSION",
        help="it, and without each part in turn",
    )
    compare.set_defaults(after="the same command goes on where it stopped")
    leaderboard = _command(commands, "leaderboard", _leaderboard, "compare runs that are done", LeaderboardConfig)
    leaderboard.add_argument("words", nargs="+", metavar="RUN | GRID | key=value", help="folders of runs or of grids")
    inspect = _command(commands, "inspect", _inspect, "show what an objective does to each token", InspectConfig)
    inspect.add_argument("folder", metavar="RUN", help="the folder of a run")
    inspect.add_argument("words", nargs="*", metavar="key=value", help="later ones win")
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
    parser.set_defaults(run=run, after="nothing is left half done")
    return parser


def _key_table(schema: type[Any]) -> str:
    import textwrap

    lines, shown = ["keys, with their defaults:"], list(keys(schema))
    if schema is BenchmarksConfig:
        shown += [key for key in keys(Config) if key[0].startswith(EVALUATION_KEYS) and key[0] != "model.name"]
    if schema is Config:
        lines = [
            "keys, with their defaults (where neither a file nor another model is named,",
            "configs/arithmetic.yaml comes before your words):",
        ]
    for name, default, doc in shown:
        lines.append(f"  {name}={'' if default is None else default}")
        lines += textwrap.wrap(doc, width=78, initial_indent="      ", subsequent_indent="      ")
    return "\n".join(lines)


def _train(arguments: argparse.Namespace) -> None:
    from rlzoo.config import load_config, with_embedded_default
    from rlzoo.report.terminal import Terminal
    from rlzoo.training.run import train

    train(load_config(with_embedded_default(arguments.words)), Terminal())


def _evaluate(arguments: argparse.Namespace) -> None:
    from rlzoo.evaluation.target import evaluate_target
    from rlzoo.report.terminal import Terminal

    evaluate_target(arguments.target, arguments.words, Terminal())


def _regrade(arguments: argparse.Namespace) -> None:
    from rlzoo.evaluation.regrade import regrade
    from rlzoo.report.terminal import Terminal

    regrade(arguments.words, Terminal())


def _compare(arguments: argparse.Namespace) -> int:
    from rlzoo.comparing.compare import compare
    from rlzoo.comparing.grid import read_grid
    from rlzoo.report.grid_view import GridView
    from rlzoo.report.leaderboard_page import show_leaderboard

    grid, jobs = read_grid(arguments.words, arguments.ablate)
    failures = compare(grid, jobs, GridView())
    for failure in failures:
        name = f"{failure.cell.objective} seed {failure.cell.seed}"
        print(f"rlzoo: {name} failed: {failure.message} ({failure.log})", file=sys.stderr)
    if failures:
        count = f"{len(failures)} of {len(grid.cells)} runs failed"
        print(f"rlzoo: {count}; the same command tries them again", file=sys.stderr)
    show_leaderboard([str(grid.folder)])
    return 1 if failures else 0


def _leaderboard(arguments: argparse.Namespace) -> None:
    from rlzoo.report.leaderboard_page import show_leaderboard

    show_leaderboard(arguments.words)


def _inspect(arguments: argparse.Namespace) -> None:
    from rlzoo.report.microscope_page import show_microscope

    show_microscope(arguments.folder, arguments.words)


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
    from rlzoo.training.warmup import MAX_RESPONSE_TOKENS, WarmupConfig, target_folder, warmup

    config = load_config(arguments.words, WarmupConfig)
    terminal = Terminal()
    with terminal.warming_up(config.steps) as progress:
        metrics = warmup(config, progress)
    for name, value in metrics.items():
        terminal.console.print(f"{name:<20} {value:,.3f}".removesuffix(".000"))
    folder = target_folder(config)
    options = [f"task.options.{name}={value}" for name, value in config.task.options.items()]
    task = ["model.name=" + str(folder), "task.name=" + config.task.name, *options]
    command = ["rlzoo", "train", *task, f"rollout.max_response_tokens={MAX_RESPONSE_TOKENS}"]
    terminal.console.print(f"model                {folder}", soft_wrap=True)
    terminal.console.print(f"next                 {shlex.join(command)}", soft_wrap=True)
