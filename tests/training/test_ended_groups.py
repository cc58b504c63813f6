"""A scheduler, torchrun and a terminal signal the whole group: no grade is wrong, and what is finished is saved."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import rlzoo
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import read_json_lines
from tests.processes import TWO

REWARD = """
import time

def reward(response, gold, **columns):
    time.sleep(0.03)
    return 1.0 + len(response) % 7
"""
"""Slow, so that signals come amid grading; and what is graded as an empty response earns another reward."""
SIZES = (
    "rollout.prompts_per_step=4",
    "rollout.responses_per_prompt=4",
    "evaluation.problems=2",
    "evaluation.samples=2",
)
SMALL = (*SIZES, "checkpoint.every=0")
WORDS = (*SMALL, "objective=grpo+stare(adaptive=true)", "task.reward=./reward.py:reward", "task.grader_workers=2")


@pytest.fixture(autouse=True)
def reward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the working directory."""
    monkeypatch.chdir(tmp_path)
    Path("reward.py").write_text(REWARD)


def started(*words: str) -> subprocess.Popen[str]:
    """A command at the head of a group of its own."""
    command = [sys.executable, "-m", "rlzoo", *words]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, start_new_session=True, **pipes)  # type: ignore[call-overload]


def process_of_rank(rank: int, launcher: int) -> psutil.Process:
    """The one that torchrun has started for it."""
    below = psutil.Process(launcher).children(recursive=True)
    return next(it for it in below if "rlzoo" in it.cmdline() and it.environ().get("RANK") == str(rank))


def wait_for_step(step: int, process: subprocess.Popen[str], folder: RunFolder) -> None:
    """Until it is done."""
    while len(read_json_lines(folder.metrics)) < step:
        assert process.poll() is None
        time.sleep(0.02)


@pytest.mark.slow
def test_a_run_whose_group_is_ended_amid_grading_goes_on_as_if_it_had_not_been() -> None:
    run = RunFolder(Path("run"))
    process = started("train", *WORDS, "train.steps=500", "output=run")
    wait_for_step(2, process, run)
    time.sleep(0.1)
    for _ in range(2):  # a scheduler's, and its launcher's
        os.killpg(process.pid, signal.SIGTERM)
    _, error = process.communicate(timeout=60)
    done = len(read_json_lines(run.metrics))
    assert process.returncode == 143 and f"step {done} is saved; resume=true" in error
    assert "Traceback" not in error and "leaked" not in error
    last = f"train.steps={done + 1}"
    rlzoo.train(*WORDS, last, output="run", resume=True, progress=False)
    rlzoo.train(*WORDS, last, output="whole", progress=False)
    for name in ("metrics.jsonl", "responses.jsonl", f"checkpoints/step-{done + 1:06d}/model.safetensors"):
        assert (run / name).read_bytes() == Path("whole", name).read_bytes()


@pytest.mark.slow
def test_a_grid_that_a_scheduler_ends_has_saved_the_last_step_of_its_run() -> None:
    run = RunFolder(Path("grid/grpo-0"))
    process = started("compare", "grpo", "seeds=0", *SMALL, "train.steps=500", "output=grid")
    wait_for_step(1, process, run)
    os.killpg(process.pid, signal.SIGTERM)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 143 and "the same command goes on" in error and "Traceback" not in error
    last = run.last_checkpoint()
    assert last is not None and last.name == f"step-{len(read_json_lines(run.metrics)):06d}"


@pytest.mark.slow
def test_a_run_that_loses_one_of_its_processes_says_in_a_line_what_is_saved() -> None:
    run, words = RunFolder(Path("run")), (*SIZES, "objective=grpo", "checkpoint.every=1", "train.steps=500")
    command = [*TWO, "-m", "rlzoo", "train", *words, "output=run"]
    process = subprocess.Popen(command, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_for_step(3, process, run)
    process_of_rank(1, process.pid).kill()
    _, error = process.communicate(timeout=120)
    lines = [line for line in error.splitlines() if line.startswith("rlzoo: ")]
    assert process.returncode == 1 and len(lines) == 1, error
    told = "interrupted" in lines[0]  # torchrun may have told the other one to end before it noticed
    assert (told or "another process of this run is gone" in lines[0]) and "saved; resume=true goes on" in lines[0]
    assert "rlzoo/training/run.py" not in error
