"""A trace of one step by torch's profiler, as Perfetto, Chrome and TensorBoard read it."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import file_written_atomically

_QUIET = ("KINETO_LOG_LEVEL", "6")
"""What the profiler's library reads as it starts, or it says of each trace that it begins and ends."""


@contextmanager
def profiled(folder: RunFolder, step: int, process: int, tell: Callable[[Path], None]) -> Iterator[None]:
    """While a step is made, what this process does is traced, the step as a span `ProfilerStep#STEP`.

    The trace of a step that ends with an error is not written. `tell` is called with the folder that it lies in.
    """
    os.environ.setdefault(*_QUIET)
    with torch.profiler.profile() as profiler, torch.profiler.record_function(f"ProfilerStep#{step}"):
        yield
    with file_written_atomically(folder.profile(step) / f"process-{process}.pt.trace.json") as file:
        profiler.export_chrome_trace(file.name)
        _check_whole(file.name)
    tell(folder.profile(step))


def _check_whole(trace: str) -> None:
    """Raises OSError for one that was cut short: of a full disk the profiler says nothing."""
    with open(trace, "rb") as file:
        file.seek(-min(16, os.path.getsize(trace)), os.SEEK_END)
        if not file.read().rstrip().endswith(b"}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), trace)
