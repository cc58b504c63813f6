"""Modules that are imported for what they define; a plain script is one of them, up to its first call of a trainer.

To read one, a process runs its top again: what stands there should be definitions.
"""

import ast
import importlib
import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec, module_from_spec
from itertools import pairwise
from pathlib import Path

_is_read = ContextVar("_is_read", default=False)


class _End(BaseException):
    """A script that is read for its definitions has come to a call that would train; what it defines stands above."""


@contextmanager
def definitions_only() -> Iterator[None]:
    """While a user's file is executed for what it defines: it ends, without an error, where it calls `end_reading`."""
    token = _is_read.set(True)
    try:
        yield
    except _End:
        pass
    finally:
        _is_read.reset(token)


def end_reading() -> None:
    """What every call that trains or evaluates begins with: a script that is only read goes no further."""
    if _is_read.get():
        raise _End


CODE_FOLDERS: list[str] = []
"""Folders beside Python's own from which code that a person named was imported: other processes need them as well."""


@contextmanager
def importable_from(folder: str | Path) -> Iterator[None]:
    """While a name that a person typed is imported: modules of a folder are found, behind all others.

    At no other time: a folder with a file that is called as some optional package would otherwise run it.
    """
    entry, before = str(folder), set(sys.modules)
    is_there = entry in sys.path or (entry == os.getcwd() and "" in sys.path)
    if not is_there:
        sys.path.append(entry)
    try:
        yield
    finally:
        if not is_there and entry in sys.path:
            sys.path.remove(entry)
        files = (getattr(sys.modules[name], "__file__", None) for name in sys.modules.keys() - before)
        if entry not in CODE_FOLDERS and any(file and Path(file).is_relative_to(entry) for file in files):
            CODE_FOLDERS.append(entry)


def import_definitions(module: str) -> None:
    """Imports a module for what it defines, unless it is there already. Raises whatever the module does."""
    if module in sys.modules or module == module_name("__main__"):
        return
    with importable_from(Path.cwd()):
        _import_definitions(module)


def _import_definitions(module: str) -> None:
    spec = find_spec(module)
    if spec is None or spec.loader is None:
        importlib.import_module(module)  # raises, or makes a namespace
        return
    sys.modules[module] = made = module_from_spec(spec)
    try:
        with definitions_only():
            spec.loader.exec_module(made)
    except BaseException:
        del sys.modules[module]
        raise
    package, _, name = module.rpartition(".")
    if package:
        setattr(sys.modules[package], name, made)


def module_name(module: str) -> str:
    """What other processes import a module as: the script that was started is `__main__` in its own process alone.

    Where no file can be imported, as in a notebook, it is `__main__`.
    """
    main = sys.modules.get("__main__")
    path = Path(getattr(main, "__file__", None) or "")
    is_script = module == "__main__" and getattr(main, "__spec__", None) is None
    return path.stem if is_script and path.suffix == ".py" and path.stem.isidentifier() else module


@cache
def strings_behind(module: str, function: str) -> dict[str, str]:
    """The first argument of each call of a function in a module -> the string behind the call, as behind a field."""
    found = {}
    for statement, following in pairwise(ast.parse(_source(module)).body):
        match statement, following:
            case (
                ast.Expr(ast.Call(ast.Name(id=name), [ast.Constant(value=str(first)), *_])),
                ast.Expr(ast.Constant(value=str(text))),
            ) if name == function:
                found[first] = inspect.cleandoc(text)
    return found


def _source(module: str) -> str:
    """The text of an imported module; empty where it has no file."""
    try:
        return inspect.getsource(sys.modules[module])
    except (KeyError, OSError, TypeError):
        return ""
