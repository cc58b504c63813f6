"""Grids on clusters: whatever trains a cell, and whatever is killed meanwhile, the table is the same."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from torch.distributed.launcher.api import LaunchConfig

from rlzoo.commands import main
from rlzoo.comparing import compare as module
from rlzoo.comparing import launchers
from rlzoo.comparing.compare import compare
from rlzoo.comparing.forked_runs import LOST
from rlzoo.comparing.grid import read_grid
from rlzoo.comparing.grid_words import read_grid_words
from rlzoo.comparing.launchers import PATIENCE, Job, Local, launching, stop
from rlzoo.experiment.claim import LOCK
from rlzoo.files import append_json_line, locked, read_json_lines
from tests.comparing.finished_runs import AS_MADE, make_run
from tests.comparing.test_compare import SMALL, grid, silent, table
from tests.conftest import error_of

STEPS = 10
WORDS = ("grpo", "justrl", "seeds=0", "jobs=2", *SMALL, f"train.steps={STEPS}", "task.grader_timeout=300")
ON = {
    "local": ("launcher=local",),
    "slurm": ("launcher=slurm", "slurm.cluster=local", "slurm.time=20"),
    "ray": ("launcher=ray",),
}
"""Launcher -> its words in a place that has none of its machines."""


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[str]:
    """The address of a cluster of one node that pretends to have two GPUs."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "num_gpus": 2})
    yield cluster.address
    cluster.shutdown()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """The table of a grid that nothing disturbed."""
    folder = tmp_path_factory.mktemp("grid")
    assert main(["compare", *WORDS, f"output={folder}"]) == 0
    return table(folder)


def trainer_of(folder: Path) -> int | None:
    """The process that trains the run in a folder, if there is one: the eldest of those that write its log."""
    log, writing = folder.parent / "logs" / f"{folder.name}.txt", []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (path / "fd" / "1").resolve() == log.resolve():
                writing.append(int(path.name))
    return min(writing, default=None)


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def killing(folders: dict[Path, Callable[[int], int]]) -> None:
    """As soon as each run has taken a step, kills a process: that which trains it, or the worker above that."""
    left = dict(folders)
    while left:
        for folder in [it for it in left if read_json_lines(it / "metrics.jsonl")]:
            process = trainer_of(folder)
            assert process is not None
            os.kill(left.pop(folder)(process), signal.SIGKILL)
            assert len(read_json_lines(folder / "metrics.jsonl")) < STEPS
        time.sleep(0.02)


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
@pytest.mark.parametrize("launcher", ON)
def test_a_grid_whose_worker_is_killed_ends_with_the_table_of_one_whose_was_not(
    launcher: str, tmp_path: Path, expected: list[dict[str, str]], request: pytest.FixtureRequest
) -> None:
    environment = dict(os.environ)
    if launcher == "ray":
        environment["RAY_ADDRESS"] = request.getfixturevalue("ray_cluster")
    words = ["compare", *WORDS, *ON[launcher], f"output={tmp_path}"]
    command = [sys.executable, "-m", "rlzoo", *words]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    killing({tmp_path / "grpo-0": int, tmp_path / "justrl-0": int if launcher == "local" else parent_of})
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    assert table(tmp_path) == expected


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_on_two_gpus_is_two_processes_that_torchrun_starts(tmp_path: Path, ray_cluster: str) -> None:
    command = [sys.executable, "-m", "rlzoo", "compare", "grpo", "seeds=0", "gpus=2", *ON["ray"], *SMALL]
    command += ["log.responses=0", f"output={tmp_path}"]
    done = subprocess.run(command, env={**os.environ, "RAY_ADDRESS": ray_cluster}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "2 processes" in (tmp_path / "logs" / "grpo-0.txt").read_text()


def test_slurm_is_told_what_the_keys_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, says in (("sbatch", "Submitted batch job 12"), ("srun", ""), ("sacct", "JobID|State|NodeList")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{says}'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    words = [
        "launcher=slurm",
        "gpus=4",
        "slurm.partition=long",
        "slurm.time=90",
        "slurm.options={account: lab, mem: 64G}",
    ]
    asked = read_grid_words(["grpo", "dapo", *words]).keys
    with launching(asked) as launcher, (tmp_path / "lock").open("w") as lock:
        job = launcher.start(["objective=grpo"], tmp_path / "logs" / "grpo-0.txt", 0, lock)
    assert job.poll() is None
    (script,) = (tmp_path / "logs" / "slurm").glob("12_submission.sh")
    assert f"{sys.executable} -P -u -m submitit" in script.read_text()
    told = {line.removeprefix("#SBATCH --") for line in script.read_text().splitlines() if line.startswith("#SBATCH")}
    assert told >= {"account=lab", "mem=64G", "partition=long", "time=90", "gpus-per-node=4", "job-name=grpo-0"}


def test_torchrun_gives_its_processes_nearly_the_time_that_a_run_has_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, asks = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "import os; print(os.environ['TORCH_ELASTIC_SHUTDOWN_TIMEOUT'])"
    monkeypatch.setattr(launchers, "command", lambda words, gpus: [sys.executable, "-c", asks])
    monkeypatch.delenv(name, raising=False)
    for own, log in (None, tmp_path / "ours"), ("7", tmp_path / "theirs"):
        environment = {**os.environ, **({name: own} if own else {})}
        assert launchers.start_training([], 2, log, environment=environment).wait(60) == 0
        monkeypatch.setenv(name, log.read_text().strip())
        seconds = LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2).shutdown_timeout
        assert seconds == int(own or PATIENCE - 10) and (own or 30 < seconds < PATIENCE)


class Endless:
    """A job that ends when it is made to."""

    is_ended = False

    def poll(self) -> int | None:
        return -9 if self.is_ended else None

    def cancel(self) -> None: ...

    def kill(self) -> None:
        self.is_ended = True


def test_jobs_that_finish_their_step_are_ended_at_once_by_a_second_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupted)
    jobs = [Endless(), Endless()]
    with pytest.raises(KeyboardInterrupt):
        stop(jobs)
    assert all(job.is_ended for job in jobs)


class Gone:
    """A worker that is lost at once."""

    def poll(self) -> int:
        return LOST

    def cancel(self) -> None: ...

    def kill(self) -> None: ...


class Losing:
    """Workers that are lost, each after what `work` does with its number."""

    def __init__(self, work: Callable[[int], object] = lambda number: None) -> None:
        self.work, self.started = work, 0

    def start(self, *_: Any) -> Job:
        """One more."""
        self.started += 1
        self.work(self.started)
        return Gone()


@pytest.mark.parametrize("steps", [0, 2])
def test_a_run_whose_workers_get_lost_is_given_up_unless_it_takes_steps(steps: int, tmp_path: Path) -> None:
    cells = grid(tmp_path, "grpo", "seeds=0")
    (tmp_path / "grpo-0").mkdir()
    line = tmp_path / "grpo-0" / "metrics.jsonl"
    losing = Losing(lambda step: append_json_line(line, {"step": step, "accuracy": 0}) if step <= steps else None)
    (failure,) = compare(cells, 1, silent(), losing)
    assert losing.started == steps + 1 + module.RETRIES - (steps > 0) and failure.message == "its worker was lost"


def test_a_run_that_was_lost_while_its_curves_were_drawn_is_started_again_for_them(tmp_path: Path) -> None:
    cells, _ = read_grid(["grpo", "seeds=0", *AS_MADE, f"output={tmp_path}"])
    (run,) = cells.cells
    make_run(run.folder.path, "grpo", 0)
    drawing = Losing(lambda number: run.folder.curves.touch() if number == 2 else None)
    for _ in range(2):
        assert compare(cells, 1, silent(), drawing) == []
        assert drawing.started == 2


def test_a_run_that_another_process_trains_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = grid(tmp_path, "grpo", "seeds=0")
    (tmp_path / "grpo-0").mkdir()
    lock, looks = locked(tmp_path / "grpo-0" / LOCK), []
    assert lock is not None

    def sleep(seconds: float) -> None:
        looks.append(losing.started)
        if len(looks) == 3:
            lock.close()

    losing = Losing()
    monkeypatch.setattr(module.time, "sleep", sleep)
    compare(cells, 1, silent(), losing)
    assert looks[:3] == [0, 0, 0] and losing.started == 1 + module.RETRIES


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("launcher=pbs",), "launcher=pbs is not one of local, slurm, ray"),
        (("gpus=-1",), "gpus=-1 must be at least 0"),
        (("gpus=2",), "gpus=2 for each of jobs=1 are 2; there are 0 here"),
        (("slurm.time=60",), "slurm.* has no effect with launcher=local"),
        (("launcher=slurm",), "sbatch is not there"),
        (("launcher=slurm", "slurm.cluster=mine"), "slurm.cluster=mine is not one of slurm, local"),
        (("launcher=slurm", "slurm.cluster=local", "slurm.time=0"), "slurm.time=0 must be at least 1"),
        (("launcher=slurm", "slurm.partitoin=a"), "slurm.partition"),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) else None,
)
def test_a_launcher_that_cannot_be_had_is_one_line_before_anything_is_made(
    words: tuple[str, ...], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in error_of(capsys, "compare", "grpo", "dapo", *words, f"output={tmp_path / 'grid'}")
    assert not (tmp_path / "grid").exists()


@pytest.mark.parametrize(("launcher", "package"), [("slurm", "submitit"), ("ray", "ray")])
def test_a_missing_package_is_one_line_that_says_what_to_install(
    launcher: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    said = error_of(capsys, "compare", "grpo", "dapo", *ON[launcher], f"output={tmp_path / 'grid'}")
    assert f"pip install 'rlzoo-llm[{launcher}]'" in said and package in said
    assert not (tmp_path / "grid").exists()


def ended(job: Job) -> int:
    """Its exit status, once it has ended."""
    until = time.monotonic() + 300
    while (status := job.poll()) is None:
        assert time.monotonic() < until
        time.sleep(0.05)
    return status


@pytest.mark.slow
def test_forked_runs_end_with_statuses_of_their_own_and_a_kill_costs_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "endless.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(600)\n")
    words = {"help": ["--help"], "wrong": ["train.steps=0"], "endless": ["objective=grpo+endless:part"]}
    with (tmp_path / "lock").open("w") as lock, closing(Local(jobs=3)) as local:
        jobs = {name: local.start(given, tmp_path / "logs" / name, 0, lock) for name, given in words.items()}
        assert [ended(jobs[name]) for name in ("help", "wrong")] == [0, 2]
        assert "train.steps=0 must be at least 1" in (tmp_path / "logs" / "wrong").read_text()
        while "begun" not in (tmp_path / "logs" / "endless").read_text():
            assert jobs["endless"].poll() is None
            time.sleep(0.05)
        jobs["endless"].kill()
        assert jobs["endless"].poll() == -signal.SIGKILL
        again = local.start(words["endless"], tmp_path / "logs" / "again", 0, lock)
        assert again.poll() is None and local.template is not None
        local.template.process.terminate()  # a scheduler signals every process, and each run finishes its step
        asked = local.start(words["endless"], tmp_path / "logs" / "asked", 0, lock)
        asked.cancel()
        assert ended(asked) > 128 or ended(asked) == -signal.SIGTERM
        assert again.poll() is None
        local.template.process.kill()
        assert ended(again) == LOST
        assert ended(local.start(words["help"], tmp_path / "logs" / "more", 0, lock)) == 0
