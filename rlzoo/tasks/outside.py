"""What users bring by name, tasks among them; `rlzoo.config.recorded` has how names are written.

A task, `task.name=my_module:MyTask`, is made, read once and checked.
"""

import importlib
import inspect
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from objectives import definitions_only, importable_from
from rlzoo.config import TaskConfig
from rlzoo.config.recorded import FILE, MODULE
from rlzoo.errors import UserError, nearest, one_line
from rlzoo.source import Definition
from rlzoo.tasks.base import Grade, Grader, Problem, Task
from rlzoo.tasks.text import prompt_key


def load_outside(key: str, written: str) -> Any:
    """What is called so. Raises UserError, naming the key, if it is not there or its module cannot be imported."""
    setting, file, module = f"{key}={written}", FILE.fullmatch(written), MODULE.fullmatch(written)
    if file:
        path = Path(file[1]).expanduser().resolve()
        if not path.is_file():
            remedy = "" if Path(file[1]).is_absolute() else f" in {Path.cwd()}; go to the folder that it is named from"
            raise UserError(f"{setting}: there is no file {file[1]}{remedy}")
        where, name, load = file[1], file[2], partial(load_file, str(path))
    elif module:
        where, name, load = module[1], module[2], partial(importlib.import_module, module[1])
    else:
        raise UserError(f"{setting} is neither my_module:name nor ./my_file.py:name")
    try:
        with importable_from(Path.cwd()):
            loaded = load()
    except (Exception, SystemExit) as error:  # whatever a foreign module may raise
        if isinstance(error, ModuleNotFoundError) and f"{where}.".startswith(f"{error.name}."):
            raise UserError(
                f"{setting}: {one_line(error)}; go to the folder where {where} lies, or put PYTHONPATH=FOLDER before "
                f"the command"
            ) from None
        raise UserError(f"{setting}: {where} cannot be imported: {described(error)}") from None
    if not hasattr(loaded, name):
        there = [member for member, value in vars(loaded).items() if callable(value) and not member.startswith("_")]
        raise UserError(f"{setting}: {where} has no {name}{nearest(name, there)}")
    return getattr(loaded, name)


def definition(written: str) -> Definition | None:
    """Where a name from outside is defined; None if no file is found for it."""
    file, module = FILE.fullmatch(written), MODULE.fullmatch(written)
    if file:
        path = Path(file[1]).expanduser().resolve()
        return Definition(path, "", file[2]) if path.is_file() else None
    return None if module is None else definition_in(module[1], module[2])


def definition_in(module: str, name: str) -> Definition | None:
    """Where a module's name is defined; the packages around one that is not loaded yet are imported."""
    if module in sys.modules:
        file = getattr(sys.modules[module], "__file__", None)
    else:
        try:
            with importable_from(Path.cwd()):
                spec = find_spec(module)
        except (ImportError, ValueError):  # the caller that loads it reports this
            return None
        file = spec.origin if spec else None
    path = Path(file or "").resolve()
    return Definition(path, module, name) if path.is_file() else None


def load_file(path: str) -> ModuleType:
    """The module in a file, whatever else has its name; read again if the file has changed."""
    name = f"{Path(path).stem}_{blake2b(path.encode(), digest_size=4).hexdigest()}"
    written, known = Path(path).stat().st_mtime_ns, sys.modules.get(name)
    if known is not None and known.__dict__["written"] == written:
        return known
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    module.__dict__["written"] = written
    sys.modules[name] = module
    try:
        with definitions_only(), importable_from(Path(path).parent):  # where it finds the files beside it
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def described(error: BaseException) -> str:
    """An error of foreign code in one line, with the place where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith("<") and frame.filename not in _OURS]
    place = f" ({Path(theirs[-1].filename).name} line {theirs[-1].lineno})" if theirs else ""
    return one_line(f"{type(error).__name__}: {error}") + place


_OURS = (__file__, *(str(Path(__file__).with_name(f"{name}.py")) for name in ("grading", "tools", "environment_class")))
"""Files of ours, whose frames are left out of an error that a user's code raised."""


@dataclass(frozen=True)
class FileGrader:
    """A grader whose class lies in a file: a process that receives it has to load the file first."""

    path: str
    grader: Grader
    runs_users_code = True

    def __call__(self, problem: Problem, response: str) -> Grade:
        return self.grader(problem, response)

    def __reduce__(self) -> tuple[Any, ...]:
        return _with_file_loaded, (_LoadedFile(self.path), self.grader)


@dataclass(frozen=True)
class _LoadedFile:
    path: str

    def __reduce__(self) -> tuple[Any, ...]:
        return load_file, (self.path,)


def _with_file_loaded(module: ModuleType, grader: Grader) -> FileGrader:
    assert module.__file__ is not None
    return FileGrader(module.__file__, grader)


_TASK = ("name", "train", "held_out", "grader", "final_answer")


def check_outside_task(written: str, config: TaskConfig) -> None:
    """Raises UserError if the task is not there, or takes none of the keys that are set."""
    made, default = load_outside("task.name", written), TaskConfig()
    if hasattr(made, "environment"):
        raise UserError(
            f"task.name={written}: its attribute environment is no longer read; name a class with "
            f"task.environment=./my_file.py:MyEnvironment"
        )
    names = _parameters(made)
    for option in config.options:
        if option not in names:
            raise UserError(f"task.options.{option} is not a parameter of {written}{nearest(option, names)}")
    for key in ("problems", "wrong_reward"):
        if getattr(config, key) != getattr(default, key) and key not in names:
            raise UserError(f"task.{key}={getattr(config, key)} has no effect: {written} takes no {key}; leave it out")


def load_outside_task(written: str, config: TaskConfig, **others: int) -> Task:
    """The task of a class or function that makes one, or the object itself.

    It is called with `task.options`, and with `problems`, `wrong_reward`, `seed` and `held_out_problems` if it takes
    them. Raises UserError if it fails or makes no task.
    """
    made = load_outside("task.name", written)
    given = {**others, "problems": config.problems, "wrong_reward": config.wrong_reward, **config.options}
    try:
        names = _parameters(made)
        task = made(**{name: value for name, value in given.items() if name in names}) if callable(made) else made
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"task.name={written} failed: {described(error)}") from None
    missing = [name for name in _TASK if not (hasattr(type(task), name) or name in getattr(task, "__dict__", ()))]
    if missing:
        raise UserError(f"task.name={written} has no {', no '.join(missing)}; a task has {', '.join(_TASK)}")
    return _OutsideTask(written, task, has_environment=bool(config.environment))


def _parameters(made: Any) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(made).parameters if callable(made) else {}


@dataclass(frozen=True)
class _OutsideTask:
    """A task from outside. Its problems and answers raise UserError, naming the task, for what cannot be used."""

    written: str
    task: Task
    has_environment: bool = False

    def __str__(self) -> str:
        return f"task.name={self.written}"

    def __getattr__(self, name: str) -> Any:
        """Whatever else the task has."""
        if name == "task" or name.startswith("__"):
            raise AttributeError(name)  # where it is made from what was pickled
        return getattr(self.task, name)

    @property
    def name(self) -> str:
        return self._given("name")

    @cached_property
    def held_out(self) -> Sequence[Problem]:
        return self._problems("held_out")

    @cached_property
    def train(self) -> Sequence[Problem]:
        """The training problems. Raises UserError if held-out ones are among them."""
        train = self._problems("train")
        trained = set(map(self._identity, train))
        both = [problem for problem in self.held_out if self._identity(problem) in trained]
        if both:
            raise UserError(
                f"{self}: {len(both)} of its {len(self.held_out)} held-out problems are training problems as well, for "
                f"example {one_line(repr(both[0].prompt))} ({both[0].id}); leave them out of train or out of held_out"
            )
        return train

    @cached_property
    def grader(self) -> Grader:
        """The task's, in a form that other processes can receive where it lies in a file."""
        grader = self._given("grader")
        module = sys.modules.get(getattr(grader, "__module__", ""))
        if module is None or "written" not in module.__dict__:
            return grader
        return FileGrader(str(module.__file__), grader)

    def final_answer(self, problem: Problem, response: str) -> str | None:
        try:
            answer = self.task.final_answer(problem, response)
        except Exception as error:
            raise UserError(f"{self}: final_answer failed for {problem.id}: {described(error)}") from None
        if answer is None or isinstance(answer, str):
            return answer
        raise UserError(
            f"{self}: final_answer returned {one_line(repr(answer))} for {problem.id}; it must return text, or None"
        )

    def _given(self, name: str) -> Any:
        try:
            return getattr(self.task, name)
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"{self}: {name} failed: {described(error)}") from None

    def _problems(self, split: str) -> Sequence[Problem]:
        problems = self._given(split)
        is_sequence = hasattr(problems, "__len__") and hasattr(problems, "__getitem__")
        if not is_sequence or isinstance(problems, str | Mapping):
            raise UserError(f"{self}: {split} is a {type(problems).__name__}; it must be a list of rlzoo.tasks.Problem")
        made = [problems[number] for number in range(len(problems))]
        for number, problem in enumerate(made):
            if fault := _fault_of(problem):
                raise UserError(f"{self}: {split}[{number}] {fault}")
        return made

    def _identity(self, problem: Problem) -> object:
        """What makes two problems one: the prompt; where an environment may tell more, the answer and the data too."""
        prompt = prompt_key(problem.prompt)
        return (prompt, problem.answer, repr(problem.data)) if self.has_environment else prompt


def _fault_of(problem: Any) -> str:
    """What is wrong with a problem, and the remedy; empty if it is one."""
    if not isinstance(problem, Problem):
        return f"is {one_line(repr(problem))}; it must be a rlzoo.tasks.Problem(id, prompt, answer)"
    if not isinstance(problem.prompt, str) and not _is_chat(problem.prompt):
        return f"has the prompt {one_line(repr(problem.prompt))}; it must be text, or messages with role and content"
    if not isinstance(problem.answer, str):
        return f"has the answer {one_line(repr(problem.answer))}; it must be text: str(...), and more goes into data"
    return ""


def _is_chat(prompt: Any) -> bool:
    messages = list(prompt) if isinstance(prompt, Iterable) else []
    return bool(messages) and all(
        isinstance(message, Mapping)
        and isinstance(message.get("role"), str)
        and isinstance(message.get("content"), str)
        for message in messages
    )
