"""Plain scripts without a guard: other processes run none of them, or read them for what they define."""

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from multiprocessing import resource_tracker
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

from objectives import CODE_FOLDERS, module_name
from rlzoo.errors import UserError
from rlzoo.signals import ENDING, held_back

_AS_OURS = ModuleSpec("rlzoo.__main__", None)
_LONGEST_TMPDIR = 70
"""Bytes: below it lie sockets, whose whole path a kernel limits to 104 or 108, and Python's names take 32 of them."""
_SAFE_PATH = "PYTHONSAFEPATH"
_one_at_a_time = threading.Lock()


@contextmanager
def _safe_path() -> Iterator[None]:
    """While a Python that is started, as multiprocessing does with `-c`, imports nothing of the working directory."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        del os.environ[_SAFE_PATH]
        if before is not None:
            os.environ[_SAFE_PATH] = before


class _Process(ForkServerProcess):
    """A process that does not import what was started, which would start it again.

    Python imports the main module into every new process, but for the `__main__` of a package; so it is called one.
    Schedulers and terminals signal whole groups: neither this process nor the one that it is forked from hears what
    asks to end, which is for the process that started it to decide.
    """

    def start(self) -> None:
        main: Any = sys.modules["__main__"]
        with _one_at_a_time, held_back(), _safe_path():
            spec, main.__spec__ = getattr(main, "__spec__", None), _AS_OURS
            path, sys.path = sys.path, [*sys.path, *(it for it in CODE_FOLDERS if it not in sys.path)]
            try:
                super().start()
            finally:
                main.__spec__, sys.path = spec, path

    def run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # the server that it is forked from may be another library's
        super().run()

    def terminate(self) -> None:
        self.kill()


class WithoutMain(ForkServerContext):
    """How processes are started that need nothing of the script.

    Raises UserError if the folder for temporary files has so long a path that they could not be talked to.
    """

    Process = _Process

    def __init__(self) -> None:
        super().__init__()
        if len(os.fsencode(tempfile.gettempdir())) > _LONGEST_TMPDIR:
            raise UserError(
                f"TMPDIR: {tempfile.gettempdir()} is too long a path for the sockets of other processes, which may "
                f"have {_LONGEST_TMPDIR} bytes there; give a shorter one: TMPDIR=/tmp"
            )
        with _one_at_a_time, held_back(), _safe_path():
            resource_tracker.ensure_running()


def script_folder() -> str:
    """Where the script lies that was started, so that other processes find what it defines; empty if none was."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    return str(Path(file).resolve().parent) if file and module_name("__main__") != "__main__" else ""


def path_of(key: str, function: Callable[..., Any]) -> str:
    """How a key names a function: `module:function`, or `file.py:function` if the script that was started defines it.

    Raises UserError for one that no other process could find: of a notebook, of a prompt, or inside another function.
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    if not name.isidentifier() or (module == "__main__" and not (file and Path(file).suffix == ".py")):
        raise UserError(
            f"{key}: {name or function!r} is in no file that other processes could read; write it, with a name of its "
            f"own, into reward.py and give {key}='./reward.py:FUNCTION'"
        )
    return f"{Path(str(file)).resolve()}:{name}" if module == "__main__" else f"{module}:{name}"
