"""Tasks: problems to sample responses for, and what grades the responses."""

import re
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from rlzoo.config import TaskConfig, flat
from rlzoo.config.recorded import is_outside
from rlzoo.config.sections import ColumnsConfig
from rlzoo.errors import UserError, nearest
from rlzoo.tasks.base import FORMATS, ZIPPED, DemonstratedTask, Grade, Grader, Message, Problem, Task, format_of
from rlzoo.tasks.environment_class import environment_named, tool_keys
from rlzoo.tasks.outside import check_outside_task, load_outside_task
from rlzoo.tasks.reward import load_rewards, rewarded
from rlzoo.tasks.text import Prompt, is_rendered
from rlzoo.tasks.tools import load_tools

__all__ = [
    "OWN",
    "DemonstratedTask",
    "Grade",
    "Grader",
    "Message",
    "Problem",
    "Task",
    "check_task",
    "demonstrated_task",
    "grade",
    "is_dataset",
    "load_task",
    "load_to_grade",
    "refuse_idle_splits",
]

OWN = {
    "arithmetic": ("rlzoo.tasks.arithmetic", "Arithmetic"),
    "calculator": ("rlzoo.tasks.calculator", "Calculator"),
    "knights": ("rlzoo.tasks.knights", "Knights"),
    "sums": ("rlzoo.tasks.sums", "Sums"),
    "planted_arithmetic": ("rlzoo.lab.planted_arithmetic", "PlantedArithmetic"),
}
"""The tasks with a model in the package: name -> module and class."""

ENTRY_POINTS = "rlzoo.tasks"
"""The group of entry points by which installed packages announce tasks: a name, and `module:class`."""

_REASONING_GYM = "reasoning_gym:"
_DATASET_KEYS = ("split", "held_out", "held_out_split", "held_out_rows", "held_out_seed", "columns", "answer_form")
_PROMPT_KEYS = ("instruction", "system_prompt")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(:[\w.-]+)?")


def load_task(
    config: TaskConfig,
    seed: int = 0,
    held_out_problems: int = 512,
    is_rendered: Callable[[str], bool] = is_rendered,
) -> Task:
    """The task `config.name`: one of ours, `reasoning_gym:NAME`, one from outside, or a dataset (file, folder, hub id).

    `seed` chooses the training problems of a procedural task; `held_out_problems` is how many such a task holds out.
    `is_rendered` tells prompts of a dataset that a chat template has made already from those that it is to make.
    The splits of a dataset are read when first asked for. Raises UserError for an unknown name, for a dataset that
    cannot be read or is empty, and for every key that would have no effect on this kind of task.
    """
    check_task(config)
    return rewarded(_kind(config.name).load(config, seed, held_out_problems, is_rendered), config)


def check_task(config: TaskConfig) -> None:
    """Raises UserError for what can be refused before anything is read and any large package imported."""
    if config.wrong_reward >= 1:
        raise UserError(f"task.wrong_reward={config.wrong_reward} must be less than 1, the reward of a right answer")
    _kind(config.name).check(config)
    load_rewards(config)
    load_tools(config)
    _check_environment(config)
    if not tool_keys(config):
        _refuse(config, "a task without task.tools or task.environment", "max_turns", "tool_timeout")


def _check_environment(config: TaskConfig) -> None:
    environment = environment_named(config)
    if environment and not config.reward and not environment.reward_names:
        raise UserError(
            f"task.environment={config.environment} gives no reward; write def get_reward(self), or give "
            f"task.reward=./reward.py:FUNCTION, which may ask for environments"
        )
    if environment:
        _refuse(config, "a task with task.environment", "teacher_prompt")  # it would lack what reset shows


def load_to_grade(config: TaskConfig) -> Task:
    """The task of `load_task`, to grade with alone: it may have no problems, and the dataset may be gone."""
    return rewarded(_kind(config.name).load_to_grade(config), config)


def grade(gold: Any, response: str, data_source: str = "", prompt: Prompt = "") -> Grade:
    r"""Grades a response by itself, as `rlzoo grade` does each line: `grade("1/2", r"So \boxed{0.5}.").correct` is 1.

    `gold` is an answer, several in a list, or a solution that boxes it; `data_source`, the words of the `prompt` or
    those of the gold choose the form of the answer, as `task.answer_form=auto` does; a rendered prompt may have opened
    the response's `<think>`. Nothing bounds time and memory, so call it in a process that can be killed where responses
    may be hostile; a `GraderPool` is made of such processes. Raises ValueError if the gold answer is none.
    """
    from rlzoo.tasks.dataset import DatasetGrader, problem_to_grade

    return DatasetGrader()(problem_to_grade(gold, data_source, prompt), response)


def demonstrated_task(config: TaskConfig) -> DemonstratedTask:
    """A task that comes with demonstrations. Raises UserError for any other."""
    if config.name not in OWN:
        names = ", ".join(OWN)
        raise UserError(f"task.name={config.name} has no demonstrations{nearest(config.name, OWN)}; {names} have")
    return _own(config)


def written_outside(name: str) -> str | None:
    """`module:name` or `file.py:name` of a task from outside, also of one that a package announces; None for others."""
    if name in OWN or name.startswith(_REASONING_GYM):
        return None
    written = _announced().get(name, name) if name.isidentifier() else name
    return written if is_outside(written) else None


@dataclass(frozen=True)
class _Kind:
    check: Callable[[TaskConfig], object]
    load: Callable[[TaskConfig, int, int, Callable[[str], bool]], Task]
    load_to_grade: Callable[[TaskConfig], Task]


def _kind(name: str) -> _Kind:
    """How a task of this name is loaded, the one place that tells the kinds apart."""
    if name in OWN:
        return _Kind(_own, lambda config, *_: _own(config), lambda config: _own(replace(config, problems=1)))
    if name.startswith(_REASONING_GYM):
        return _Kind(_check_reasoning_gym, _reasoning_gym, _reasoning_gym_to_grade)
    if name.startswith("verifiers:"):
        raise UserError(
            f"task.name={name}: environments of verifiers were removed; write their rows to a file for task.name, call "
            "their rubric in a function of task.reward, and let a class of task.environment answer turns"
        )
    if written := written_outside(name):
        return _Kind(
            lambda config: _check_outside(config, written),
            lambda config, seed, count, _: load_outside_task(written, config, seed=seed, held_out_problems=count),
            lambda config: load_outside_task(written, config),
        )
    return _Kind(_check_dataset, lambda config, _, __, is_rendered: _dataset(config, is_rendered), _dataset)


def _own(config: TaskConfig) -> DemonstratedTask:
    module, name = OWN[config.name]
    made = getattr(import_module(module), name)
    _refuse(config, config.name, *_DATASET_KEYS, *_PROMPT_KEYS, "chat_template_kwargs")
    names = {field.name for field in fields(made)} - {"problems", "wrong_reward"}
    for option in config.options:
        if option not in names:
            raise UserError(f"task.options.{option} is not a parameter of {config.name}{nearest(option, names)}")
    task: DemonstratedTask = made(problems=config.problems, wrong_reward=config.wrong_reward, **config.options)
    return task


@cache
def _announced() -> dict[str, str]:
    """Name -> `module:class` of the tasks that installed packages announce."""
    return {point.name: point.value for point in entry_points(group=ENTRY_POINTS)}


def _check_outside(config: TaskConfig, written: str) -> None:
    _refuse(config, "a task from outside", *_DATASET_KEYS, *_PROMPT_KEYS)
    check_outside_task(written, config)


def _check_reasoning_gym(config: TaskConfig) -> None:
    _refuse(config, "reasoning_gym", *_DATASET_KEYS)


def _reasoning_gym(config: TaskConfig, seed: int, held_out_problems: int, _: Callable[[str], bool]) -> Task:
    from rlzoo.tasks import reasoning_gym

    return reasoning_gym.load(
        config.name.removeprefix(_REASONING_GYM),
        config.options,
        problems=config.problems,
        held_out_problems=held_out_problems,
        instruction=config.instruction,
        system_prompt=config.system_prompt,
        wrong_reward=config.wrong_reward,
        seed=seed,
    )


def _reasoning_gym_to_grade(config: TaskConfig) -> Task:
    from rlzoo.tasks import reasoning_gym

    return reasoning_gym.without_problems(config.name.removeprefix(_REASONING_GYM), config.options, config.wrong_reward)


def _check_dataset(config: TaskConfig) -> None:
    _check_source("task.name", config.name)
    if config.held_out is not None:
        _check_source("task.held_out", config.held_out)
        for key in ("held_out_rows", "held_out_seed"):
            if getattr(config, key):
                raise UserError(
                    f"task.{key}={getattr(config, key)} has no effect with task.held_out; leave one of them out"
                )
    _refuse(config, "a dataset", "options", "problems")


def is_dataset(name: str) -> bool:
    """Whether `task.name` is a file, a folder or a hub id."""
    return not (name in OWN or name.startswith(_REASONING_GYM) or written_outside(name))


def refuse_idle_splits(config: TaskConfig, typed: Container[str] | None = None) -> None:
    """Raises UserError for a key that says how a dataset is cut, is not the default, and changes nothing.

    What a run has recorded may have such keys, as earlier versions took them: then only those `typed` are refused, or
    nothing is asked. `task.held_out_seed` of a folder with two splits is warned of where that is read.
    """
    if not is_dataset(config.name):
        return
    for key, kind in _idle_splits(config):
        if typed is None or f"task.{key}" in typed:
            _refuse(config, kind, key)


def _idle_splits(config: TaskConfig) -> Iterator[tuple[str, str]]:
    """Each key of a split that is not read, and of what."""
    is_file = Path(config.name).expanduser().is_file()
    is_whole, is_other_whole = config.split.isidentifier(), config.held_out_split.isidentifier()
    if is_file and is_whole:
        yield "split", "a file, which has one split"
    if config.held_out is not None:
        if Path(config.held_out).expanduser().is_file() and is_other_whole:
            yield "held_out_split", f"task.held_out={config.held_out}, a file, which has one split"
    elif config.held_out_rows:
        yield "held_out_split", f"task.held_out_rows={config.held_out_rows}, which splits task.split"
    elif is_file and is_whole and is_other_whole:
        yield "held_out_split", "a file, which has one split"
    elif is_file:
        yield "held_out_seed", f"task.held_out_split={config.held_out_split}, which is read as it is"


def _dataset(config: TaskConfig, is_rendered: Callable[[str], bool] = is_rendered) -> Task:
    from rlzoo.tasks.dataset import DatasetTask

    return DatasetTask(config, is_rendered)


def _check_source(key: str, source: str) -> None:
    path = Path(source).expanduser()
    if path.is_dir() or (path.is_file() and format_of(path)):
        return
    if path.is_file():
        raise UserError(
            f"{key}={source} is neither parquet, JSON nor CSV; its name should end in {', '.join(FORMATS)}, or in "
            f"{ZIPPED} behind one of the last three"
        )
    if format_of(path) or source.startswith(("/", ".", "~")):
        raise UserError(f"{key}={source}: there is no such file or folder")
    if not _HUB_ID.fullmatch(source):
        near = nearest(source, OWN) or nearest(source, _names())
        kinds = (
            f"; a task is {', '.join(OWN)}, "
            f"reasoning_gym:NAME, a parquet, JSON or CSV file, a folder, a hub id OWNER/NAME or "
            f"OWNER/NAME:CONFIGURATION, or one of your own, my_module:MyTask or ./my_file.py:MyTask"
        )
        raise UserError(f"{key}={source} is not a task{near or kinds}")


def _refuse(config: TaskConfig, kind: str, *keys: str) -> None:
    """Raises UserError for a key that is set and would have no effect."""
    default, given = (_plain(it, keys) for it in (TaskConfig(), config))
    for name, value in given.items():
        if value != default.get(name):
            raise UserError(f"task.{name}={value!r} has no effect on {kind} (task.name={config.name}); leave it out")


def _plain(config: TaskConfig, keys: Sequence[str]) -> dict[str, Any]:
    """These keys, those of sections dotted."""
    values = {key: getattr(config, key) for key in keys}
    return flat({key: asdict(value) if isinstance(value, ColumnsConfig) else value for key, value in values.items()})


def _names() -> list[str]:
    """Of tasks. reasoning_gym says its own once it is imported, which takes a second: only a mistake asks."""
    from reasoning_gym.factory import DATASETS

    return [*OWN, *(_REASONING_GYM + name for name in sorted(DATASETS))]
