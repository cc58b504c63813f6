"""What users bring by name; `rlzoo.config.recorded` has how names are written."""

import importlib
import sys
import traceback
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from objectives import definitions_only, importable_from
from rlzoo.config.recorded import FILE, MODULE
from rlzoo.errors import UserError, nearest, one_line
from rlzoo.source import Definition
from rlzoo.tasks.base import Grade, Grader, Problem


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
    except (Exception, SystemExit) as error:  # whatever a module of somebody else's may raise
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
        except (ImportError, ValueError):  # whoever loads it says so
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
    """An error of somebody else's code in one line, with the place where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith("<") and frame.filename != __file__]
    place = f" ({Path(theirs[-1].filename).name} line {theirs[-1].lineno})" if theirs else ""
    return one_line(f"{type(error).__name__}: {error}") + place


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
