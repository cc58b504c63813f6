"""`rlzoo map`, `rlzoo suite` and `rlzoo warmup`, and what they call from Python.

The command line finds `declare_NAME` and `NAME_command` here by name: it imports no laboratory until one is asked for.
"""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from objectives import parse
from rlzoo.api import user_call
from rlzoo.commands.key_table import declare_words
from rlzoo.config import TaskConfig, load_config
from rlzoo.config.words import python_words
from rlzoo.lab.keys import MapConfig, SuiteConfig, WarmupConfig

if TYPE_CHECKING:
    from rlzoo.lab.map.zoo_map import ZooMap
    from rlzoo.lab.suite.suite import SuiteTable


# ---- map -------------------------------------------------------------------------------------------------------------


def declare_map(parser: ArgumentParser) -> None:
    """Objectives, every recipe if there is none, and keys."""
    declare_words(parser, "map", "EXPRESSION | key=value", "objectives, every recipe if there is none")


def map_command(arguments: Namespace) -> None:
    """Makes the map, writes it and says where it is."""
    map_objectives(arguments.words)


@user_call()
def map_objectives(objectives: Sequence[str] | str = (), progress: bool = True, **keys: Any) -> ZooMap:
    """What one update of each objective does, exactly, in a micro-language: the map that `rlzoo map` makes and writes.

    Every recipe if none is named. `regimes=["stale", "hard"]` and the like are the command's keys. A regime's
    `row("grpo")` has biases, noise and changes, its `cosines` [E, E] and `groups` say who is alike. Raises UserError.
    """
    expressions, settings = _split(objectives, keys)
    config: MapConfig = load_config(settings, MapConfig)
    for expression in expressions:
        parse(expression)

    from rlzoo.lab.map.view import show_map
    from rlzoo.lab.map.zoo_map import all_expressions, make_map
    from rlzoo.report.table import plain_console

    console = plain_console(quiet=not progress)
    zoo_map = make_map(expressions or all_expressions(), config, lambda regime: console.print(f"map         {regime}"))
    show_map(zoo_map, Path(config.output), console)
    return zoo_map


# ---- suite -----------------------------------------------------------------------------------------------------------


def declare_suite(parser: ArgumentParser) -> None:
    """Objectives, the experiments' own arms alone if there is none, and keys."""
    parser.set_defaults(after="what is done is kept; the same command goes on where it stopped")
    declare_words(parser, "suite", "EXPRESSION | key=value", "objectives beside the experiments' own arms")


def suite_command(arguments: Namespace) -> int:
    """Trains what is not done, writes the tables and pictures; 1 if a cell failed."""
    return int(bool(run_suite(arguments.words).failures))


@user_call()
def run_suite(objectives: Sequence[str] | str = (), progress: bool = True, **keys: Any) -> SuiteTable:
    """The behaviour suite that `rlzoo suite` runs and writes: small trainings with a failure mode on purpose.

    Each experiment's own arms if no objective is named. `experiments=["rare_but_right"], seeds=10, jobs=2` and the
    like are the command's keys. What is done in `output` is not done again. Raises UserError.
    """
    from rlzoo.lab.suite.experiment import check_names

    expressions, settings = _split(objectives, keys)
    config: SuiteConfig = load_config(settings, SuiteConfig)
    check_names(config.experiments)
    for expression in expressions:
        parse(expression)

    from rlzoo.lab.suite.suite import make_suite
    from rlzoo.lab.suite.view import SuiteView

    view = SuiteView(config, quiet=not progress)
    suite = make_suite(config, expressions, view)
    view.show(suite, expressions)
    return suite


# ---- warmup ----------------------------------------------------------------------------------------------------------


def declare_warmup(parser: ArgumentParser) -> None:
    """Keys."""
    declare_words(parser, "warmup", "key=value")


def warmup_command(arguments: Namespace) -> None:
    """Makes the model, and says how good it is and what to type next."""
    config: WarmupConfig = load_config(arguments.words, WarmupConfig)

    from rlzoo.lab.warmup import MAX_RESPONSE_TOKENS, target_folder, tools_of, warmup
    from rlzoo.report.terminal import Terminal
    from rlzoo.tasks import demonstrated_task

    terminal = Terminal()
    with terminal.warming_up(config.steps) as progress:
        metrics = warmup(config, progress)
    for name, value in metrics.items():
        terminal.console.print(f"{name:<20} {value:,.3f}".removesuffix(".000"))
    folder = target_folder(config)
    options = [f"task.options.{name}={value}" for name, value in config.task.options.items()]
    tools = tools_of(demonstrated_task(TaskConfig(config.task.name, options=config.task.options, problems=1)))
    options += [f"task.tools=[{','.join(tools)}]"] if tools else []
    task = ["model.name=" + str(folder), "task.name=" + config.task.name, *options]
    command = ["rlzoo", "train", *task, f"rollout.max_response_tokens={MAX_RESPONSE_TOKENS}"]
    terminal.console.print(f"model                {folder}", soft_wrap=True)
    terminal.console.print(f"next                 {shlex.join(command)}", soft_wrap=True)


# ---- words -----------------------------------------------------------------------------------------------------------


def _split(given: Sequence[str] | str, keys: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Expressions, each once, and the words of settings."""
    from rlzoo.comparing.grid_words import is_setting

    words = [*([given] if isinstance(given, str) else given), *python_words(keys)]
    expressions = list(dict.fromkeys(word for word in words if not is_setting(word)))
    return expressions, [word for word in words if is_setting(word)]
