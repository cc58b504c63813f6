"""Plain scripts without a guard: other processes run none of them, or read them for their functions alone.

To read one for a reward that it defines, a process runs its top again, up to the first call of rlzoo: what stands there
should be definitions.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.machinery import ModuleSpec
from multiprocessing import resource_tracker
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

from rlzoo.errors import UserError
from rlzoo.signals import ENDING, held_back

_AS_OURS = ModuleSpec("rlzoo.__main__", None)
_one_at_a_time = threading.Lock()
_is_read = ContextVar("_is_read", default=False)


class _Process(ForkServerProcess):
    """A process that does not import what was started, which would start it again.

    Python imports the main module into every new process, but for the `__main__` of a package; so it is called one.
    Schedulers and terminals signal whole groups: neither this process nor the one that it is forked from hears what
    asks to end, which is for the process that started it to decide.
    """

    def start(self) -> None:
        main: Any = sys.modules["__main__"]
        with _one_at_a_time, held_back():
            spec, main.__spec__ = getattr(main, "__spec__", None), _AS_OURS
            try:
                super().start()
            finally:
                main.__spec__ = spec

    def run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # the server that it is forked from may be somebody else's
        super().run()

    def terminate(self) -> None:
        self.kill()


class WithoutMain(ForkServerContext):
    """How processes are started that need nothing of the script."""

    Process = _Process

    def __init__(self) -> None:
        super().__init__()
        with held_back():
            resource_tracker.ensure_running()


class _CallInScript(BaseException):
    """A script that is read for its functions has come to its call of rlzoo; what it hands over stands above."""


@contextmanager
def definitions_only() -> Iterator[None]:
    """While the file of a user's function is executed: it ends, without an error, where it calls rlzoo itself."""
    token = _is_read.set(True)
    try:
        yield
    except _CallInScript:
        pass
    finally:
        _is_read.reset(token)


def end_reading() -> None:
    """What every call that trains or evaluates begins with: a script that is only read goes no further."""
    if _is_read.get():
        raise _CallInScript


def find_modules_here() -> None:
    """Has `my_module:part` found in the working directory, wherever rlzoo was started from."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


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
