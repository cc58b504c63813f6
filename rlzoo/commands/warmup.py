"""`rlzoo warmup`."""

import shlex
from argparse import ArgumentParser, Namespace

from rlzoo.commands.key_table import declare_words
from rlzoo.config import TaskConfig, WarmupConfig, load_config

SUMMARY = "make the embedded model by supervised warm-up"


def declare(parser: ArgumentParser) -> None:
    """Keys."""
    declare_words(parser, "warmup", "key=value")


def run(arguments: Namespace) -> None:
    """Makes the model, and says how good it is and what to type next."""
    config: WarmupConfig = load_config(arguments.words, WarmupConfig)

    from rlzoo.report.terminal import Terminal
    from rlzoo.tasks import demonstrated_task
    from rlzoo.training.warmup import MAX_RESPONSE_TOKENS, target_folder, tools_of, warmup

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
