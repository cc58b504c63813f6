"""The process that trains a cell: started here, or by a worker of a cluster, which need not import torch for that."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from rlzoo.files import opened_to_append

PATIENCE = 300.0
"""Seconds that a process which is told to end has for that: it finishes its step, and saves it."""
TORCHRUNS_PATIENCE = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(int(PATIENCE) - 10)}
"""The seconds that torchrun, 30 otherwise, gives its processes; versions that do not know it keep to these."""
RESTARTS = 2
"""How often torchrun starts the processes of a run again when one of them is lost."""

_prctl = getattr(ctypes.CDLL(None), "prctl", None)
_SET_PARENT_DEATH_SIGNAL = 1


def command(words: Sequence[str], gpus: int) -> list[str]:
    """What trains with these words: one process, or by torchrun one for each of several GPUs."""
    launched = ["torch.distributed.run", "--standalone", f"--nproc_per_node={gpus}", f"--max-restarts={RESTARTS}", "-m"]
    return [sys.executable, "-P", "-m", *(launched if gpus > 1 else []), "rlzoo", "train", *words]


def start(
    words: Sequence[str],
    gpus: int,
    log: Path,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    lock: IO[str] | None = None,
) -> subprocess.Popen[bytes]:
    """Starts it in `folder`; it ends with its parent, holds the lock until then, and adds what it prints to `log`."""
    log.parent.mkdir(exist_ok=True)
    with opened_to_append(log) as output:
        return subprocess.Popen(
            command(words, gpus),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**TORCHRUNS_PATIENCE, **(os.environ if environment is None else environment)},
            pass_fds=[lock.fileno()] if lock else [],
            start_new_session=True,  # Ctrl-C reaches the parent alone, which then ends its children
            preexec_fn=_end_with_parent,
        )


def run(words: Sequence[str], gpus: int, log: Path, folder: Path) -> int:
    """What a worker of a cluster does: trains in `folder` to the end. Returns the exit status."""
    process = start(words, gpus, log, folder)
    try:
        return process.wait()
    finally:  # the worker itself may be told to end
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def _end_with_parent() -> None:
    """Has Linux end this process when its parent is gone, however that ended; elsewhere, it works on to its end."""
    if sys.platform == "linux" and _prctl is not None:
        _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)  # SIGTERM would leave it its step, and its folder taken
