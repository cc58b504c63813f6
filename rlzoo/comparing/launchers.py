"""Where the runs of a grid are trained: processes of this machine, jobs of Slurm, or tasks of a Ray cluster."""

import logging
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from rlzoo.comparing.forked_runs import LOST, Template, end_with_parent
from rlzoo.config.command_keys import GridConfig, SlurmConfig
from rlzoo.errors import UserError, one_line
from rlzoo.files import locked, open_to_append
from rlzoo.scripts import script_folder

POLL = 0.2
"""Seconds between looks at the jobs."""
PATIENCE = 300.0
"""Seconds that a process may take to end after a signal. It finishes its step, and saves it."""
TORCHRUNS_PATIENCE = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(int(PATIENCE) - 10)}
"""The seconds that torchrun, 30 otherwise, gives its processes; versions that do not know it keep to these."""
RESTARTS = 2
"""How often torchrun starts the processes of a run again when one of them is lost."""

_logger = logging.getLogger(__name__)


class Job(Protocol):
    """A run that is being trained somewhere, or waits for its turn there."""

    def poll(self) -> int | None:
        """None until it has ended, then its exit status: below 0 if a signal ended it or its worker is gone."""
        ...

    def cancel(self) -> None:
        """Asks it to end."""
        ...

    def kill(self) -> None:
        """Makes it end."""
        ...


class Launcher(Protocol):
    """Starts jobs."""

    def start(self, words: Sequence[str], log: Path, slot: int, lock: IO[str]) -> Job:
        """Trains with these words, as number `slot` of the jobs at a time; a child process holds the lock as well."""
        ...


@contextmanager
def launching(asked: GridConfig) -> Iterator[Launcher]:
    """The launcher that the keys of a grid ask for. Raises UserError if it cannot be had."""
    if asked.launcher == "slurm":
        yield Slurm(asked.slurm, asked.gpus)
    elif asked.launcher == "ray":
        with _ray_cluster():
            yield Ray(asked.gpus)
    else:
        with closing(Local(asked.jobs, asked.gpus)) as local:
            yield local


def stop(jobs: Sequence[Job]) -> None:
    """Asks them to end, then makes them; at once if that is interrupted."""
    for job in jobs:
        job.cancel()
    if jobs:
        _logger.warning("runs that train finish their step and save it; Ctrl-C again ends them at once")
    until = time.monotonic() + PATIENCE
    try:
        while time.monotonic() < until and any(job.poll() is None for job in jobs):
            time.sleep(POLL)
    finally:
        for job in jobs:
            if job.poll() is None:
                job.kill()


@dataclass(frozen=True)
class ExternalRun:
    """A run whose folder a process holds that this call did not start: it has ended when that lets go."""

    lock: Path

    def poll(self) -> int | None:
        return None if is_held(self.lock) else LOST

    def cancel(self) -> None: ...

    def kill(self) -> None: ...


def is_held(lock: Path) -> bool:
    """Whether a process, on this machine or another, has it."""
    file = locked(lock) if lock.exists() else None
    if file is not None:
        file.close()
    return file is None and lock.exists()


# ---- the process of a run --------------------------------------------------------------------------------------------

# It is started here, or by a worker of a cluster, which need not import torch for that.


def command(words: Sequence[str], gpus: int) -> list[str]:
    """What trains with these words: one process, or by torchrun one for each of several GPUs."""
    launched = ["torch.distributed.run", "--standalone", f"--nproc_per_node={gpus}", f"--max-restarts={RESTARTS}", "-m"]
    return [sys.executable, "-P", "-m", *(launched if gpus > 1 else []), "rlzoo", "train", *words]


def start_training(
    words: Sequence[str],
    gpus: int,
    log: Path,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    lock: IO[str] | None = None,
) -> subprocess.Popen[bytes]:
    """Starts it in `folder`; it ends with its parent, holds the lock until then, and adds what it prints to `log`."""
    log.parent.mkdir(exist_ok=True)
    with open_to_append(log) as output:
        return subprocess.Popen(
            command(words, gpus),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**TORCHRUNS_PATIENCE, **(os.environ if environment is None else environment)},
            pass_fds=[lock.fileno()] if lock else [],
            start_new_session=True,  # Ctrl-C reaches the parent alone, which then ends its children
            preexec_fn=end_with_parent,
        )


def train_to_the_end(words: Sequence[str], gpus: int, log: Path, folder: Path) -> int:
    """What a worker of a cluster does: trains in `folder` to the end. Returns the exit status."""
    process = start_training(words, gpus, log, folder)
    try:
        return process.wait()
    finally:  # the worker itself may be told to end
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


# ---- this machine ----------------------------------------------------------------------------------------------------


@dataclass
class Local:
    """Child processes, which share the cores and the GPUs; without GPUs they are forked from one template."""

    jobs: int = 1
    gpus: int = 1
    template: Template | None = None

    def __post_init__(self) -> None:
        there, wanted = len(_devices()) if self.gpus > 1 else 0, self.jobs * self.gpus
        if self.gpus > 1 and there < wanted:
            raise UserError(f"gpus={self.gpus} for each of jobs={self.jobs} are {wanted}; there are {there} here")

    def start(self, words: Sequence[str], log: Path, slot: int, lock: IO[str]) -> Job:
        environment = self.environment(slot)
        if not self._forks():
            return _LaunchedChild(start_training(words, self.gpus, log, environment=environment, lock=lock))
        if self.template is None or not self.template.is_alive:
            self.close()
            self.template = Template(environment)
        return self.template.start(words, log, lock)

    def _forks(self) -> bool:
        """Whether a process that has imported torch can be forked: drivers of GPUs do not survive it."""
        import torch

        return sys.platform == "linux" and self.gpus <= 1 and not torch.accelerator.is_available()

    def close(self) -> None:
        """Ends the template."""
        if self.template is not None:
            self.template.close()
            self.template = None

    def environment(self, slot: int) -> dict[str, str]:
        """An equal share of the cores unless the user has settled that, and of several GPUs those whose turn it is."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        environment = {"OMP_NUM_THREADS": str(max(1, cores // (self.jobs * max(1, self.gpus)))), **os.environ}
        devices = _devices()
        if folder := script_folder():
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, environment.get("PYTHONPATH"))))
        if not self.gpus or (len(devices) > 1 and (self.jobs, self.gpus) != (1, 1)):
            of_slot = [devices[(slot * self.gpus + i) % len(devices)] for i in range(self.gpus)]
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(of_slot)
        return environment


@dataclass(frozen=True)
class _LaunchedChild:
    process: subprocess.Popen[bytes]

    def poll(self) -> int | None:
        return self.process.poll()

    def cancel(self) -> None:
        self.process.send_signal(signal.SIGTERM)  # in the background, shells have SIGINT ignored

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def _devices() -> list[str]:
    import torch

    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",") if named else [str(number) for number in range(torch.cuda.device_count())]


# ---- Slurm -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slurm:
    """Jobs that submitit submits; its own files lie beside the logs."""

    asked: SlurmConfig
    gpus: int

    def start(self, words: Sequence[str], log: Path, slot: int, lock: IO[str]) -> Job:
        from submitit import AutoExecutor

        python = f"{shlex.quote(sys.executable)} -P"  # without the working directory on its import path
        of_python = {"slurm_python": python, "local_python": python}
        executor = AutoExecutor(log.parent.resolve() / "slurm", cluster=self.asked.cluster, **of_python)
        options = {"partition": self.asked.partition, **self.asked.options}
        executor.update_parameters(
            name=log.stem,
            timeout_min=self.asked.time,
            gpus_per_node=self.gpus or None,
            slurm_additional_parameters={name: value for name, value in options.items() if value != ""},
        )
        return _Submitted(executor.submit(train_to_the_end, words, self.gpus, log.resolve(), Path.cwd()))


@dataclass(frozen=True)
class _Submitted:
    job: Any

    def poll(self) -> int | None:
        if not self.job.done():
            return None
        is_whole = self.job.paths.result_pickle.exists() and self.job.exception() is None
        return int(self.job.result()) if is_whole else LOST

    def cancel(self) -> None:
        self.job.cancel(check=False)

    def kill(self) -> None: ...  # Slurm does that itself


# ---- Ray -------------------------------------------------------------------------------------------------------------


@contextmanager
def _ray_cluster() -> Iterator[None]:
    """The cluster that RAY_ADDRESS names, or that runs on this machine; one of this machine alone if there is none."""
    import ray

    if ray.is_initialized():  # by the script that calls
        yield
        return
    try:
        ray.init(log_to_driver=False, logging_level=logging.WARNING)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UserError(f"launcher=ray: no cluster can be had: {one_line(error)}; check RAY_ADDRESS") from None
    try:
        yield
    finally:
        ray.shutdown()


@dataclass(frozen=True)
class Ray:
    """Tasks of the cluster to which this process is connected."""

    gpus: int

    def start(self, words: Sequence[str], log: Path, slot: int, lock: IO[str]) -> Job:
        import ray

        task = ray.remote(train_to_the_end).options(num_gpus=self.gpus, max_retries=0, name=log.stem)
        return _Task(task.remote(words, self.gpus, log.resolve(), Path.cwd()), log)


@dataclass(frozen=True)
class _Task:
    reference: Any
    log: Path

    def poll(self) -> int | None:
        import ray

        if not ray.wait([self.reference], timeout=0)[0]:
            return None
        try:
            return int(ray.get(self.reference))
        except ray.exceptions.RayTaskError as error:  # such as rlzoo not being there
            with open_to_append(self.log) as log:
                log.write(f"{error}\n")
            return 1
        except ray.exceptions.RayError:
            return LOST

    def cancel(self) -> None:
        import ray

        ray.cancel(self.reference)

    def kill(self) -> None:
        import ray

        ray.cancel(self.reference, force=True)
