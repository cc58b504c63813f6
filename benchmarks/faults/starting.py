"""Starts a command that will be killed: in fresh processes, or in forks of this one, which need not import first."""

import importlib
import math
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from benchmarks.faults.workloads import OUTPUT, ROOT, Workload

LOG = "log.txt"
"""What the processes of a workload say, beside its output."""
LONGEST = 1800.0
"""Seconds after which a command counts as hung."""
_POLL = 0.1
"""Seconds between two looks at what processes have calculated."""
_TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc_per_node=2", "-m")
_IMPORTED = (
    "rlzoo.api",
    "rlzoo.commands",
    "rlzoo.comparing.compare",
    "rlzoo.evaluation.evaluate_target",
    "rlzoo.report.drawing",
    "rlzoo.report.terminal",
    "rlzoo.training.run",
    "transformers.models.qwen3.modeling_qwen3",
)


@dataclass(frozen=True)
class Started:
    """The processes of a command, each at the head of a process group."""

    heads: Sequence[psutil.Process]
    is_a_tree: bool = False
    """Whether others than these do the work."""

    def ends_within(self, seconds: float) -> bool:
        """Waits so long at most for all of them."""
        return not psutil.wait_procs(self.heads, timeout=seconds)[1]

    def spend(self, budget: float = math.inf) -> tuple[bool, float]:
        """Waits until they have had so many seconds of the processor; whether they ended before, and their seconds.

        Raises ChildProcessError if they hang.
        """
        used, until = 0.0, time.monotonic() + LONGEST
        while time.monotonic() < until:
            if self.ends_within(_POLL):
                return True, used
            used = max(used, sum(map(_cpu_seconds, self.family() if self.is_a_tree else self.heads)))
            if used >= budget:
                return False, used
        raise ChildProcessError(f"{[process.pid for process in self.heads]} hang")

    @property
    def status(self) -> int:
        """The first that is not 0, once they have ended; that of a signal is 128 and its number, as shells have it."""
        codes = [process.wait() or 0 for process in self.heads]
        return next((128 - code if code < 0 else code for code in codes if code), 0)

    def family(self) -> list[psutil.Process]:
        """All processes that are there, those that grade among them."""
        found = []
        for process in self.heads:
            with suppress(psutil.NoSuchProcess):
                found += [process, *process.children(recursive=True)]
        return found

    def terminate_groups(self) -> None:
        """SIGTERM to every process of the groups, as schedulers, launchers and terminals send it."""
        for process in self.heads:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to every process, as a machine that goes down has it."""
        for process in self.family():
            with suppress(psutil.NoSuchProcess):
                process.kill()


def _cpu_seconds(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0


def start(workload: Workload, folder: Path, fresh: bool) -> Started:
    """Begins a workload in a folder, or goes on with it, with one thread a process."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reward.py").write_bytes(Path(__file__).with_name("reward.py").read_bytes())
    words = [*workload.words, f"output={OUTPUT}"]
    environment = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    starts_others = workload.words[0] == "compare"
    if not fresh:
        heads = [_forked(words, folder, environment | joined) for joined in _joined(workload.processes)]
        return Started(heads, starts_others)
    launcher = _TORCHRUN if workload.processes > 1 else ()
    with (folder / LOG).open("ab") as log:
        process = psutil.Popen(
            [sys.executable, "-m", *launcher, "rlzoo", *words],
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return Started([process], starts_others or bool(launcher))


def _joined(processes: int) -> list[dict[str, str]]:
    """What torchrun tells each of several processes."""
    if processes == 1:
        return [{}]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1])}
    sizes = {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes)}
    return [{**address, **sizes, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(processes)]


@cache
def import_all() -> float:
    """What forks need not import; returns the seconds of the processor that this process has had once it is done."""
    for name in _IMPORTED:
        importlib.import_module(name)
    return time.process_time()


def _forked(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> psutil.Process:
    import_all()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        with suppress(ProcessLookupError, PermissionError):  # the child was faster
            os.setpgid(child, child)  # so that it is done before anyone signals the group
        return psutil.Process(child)
    status = 1
    try:
        status = _run(words, folder, environment)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _run(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> int:
    os.setpgid(0, 0)
    os.chdir(folder)
    log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for output in (1, 2):
        os.dup2(log, output)
    os.environ.update(environment)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    import torch

    from rlzoo.commands import main

    torch.set_num_threads(1)  # too late for the variable
    return main(list(words))
