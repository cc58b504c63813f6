"""A run that is killed while a tool runs goes on to what the undisturbed run leaves, bit for bit."""

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from benchmarks.faults.comparing import differences
from rlzoo.files import read_json_lines
from tests.processes import ONE, ROOT, launch
from tests.rollout.calling_model import save_calling_model
from tests.thinned import thinned

WAITING = '''
import random
import time
from collections.abc import Callable
from pathlib import Path

def add(a: int, b: int) -> str:
    """Adds, and waits to be killed in the second step of the run that will be.

    Args:
        a: a number.
        b: another one.
    """
    metrics = Path("run/metrics.jsonl")
    if Path("kill").exists() and metrics.exists() and metrics.read_text().count("\\n") == 1:
        Path("waiting").touch()
        time.sleep(20)
    return f"{a + b} {random.random()}"

class Adding:
    def reset(self, **columns):
        self.reward = 0.0
        return f" {random.random()}"

    def add(self, a: int, b: int) -> str:
        """Adds.

        Args:
            a: a number.
            b: another one.
        """
        self.reward += random.random()
        return add(a, b)

    def get_reward(self):
        return self.reward

def length(response):
    return len(response) / 100
'''


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("kind", thinned(["class", "functions"], fast=0, slow=2))
def test_a_run_that_is_killed_while_a_tool_runs_goes_on_as_if_it_had_not_been(kind: str, tmp_path: Path) -> None:
    save_calling_model(tmp_path / "model")
    (tmp_path / "tools.py").write_text(WAITING)
    row = {"prompt": [{"role": "user", "content": "Add up."}]}
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for _ in range(24)))
    tools = ["task.tools=[../tools.py:add]", "task.reward=../tools.py:length"]
    keys = ["model.name=../model", "task.max_turns=3", "task.tool_timeout=25"]
    keys += tools if kind == "functions" else ["task.name=../rows.jsonl", "task.environment=../tools.py:Adding"]
    keys += ["rollout.prompts_per_step=2", "rollout.responses_per_prompt=4", "rollout.max_response_tokens=150"]
    keys += ["rollout.max_prompt_tokens=1000", "evaluation.problems=1", "evaluation.samples=1", "seed=3"]
    keys += ["objective=reinforce_pp", "train.steps=2", "output=run", "checkpoint.every=1", "resume=true"]
    command = [*ONE, "-m", "rlzoo", "train", *keys]
    whole, struck = tmp_path / "whole", tmp_path / "struck"
    whole.mkdir()
    struck.mkdir()
    launch(command, whole)
    (struck / "kill").touch()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.Popen(command, cwd=struck, env=environment, stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: (struck / "waiting").exists() or run.poll() is not None, 600)
        assert run.poll() is None
        family = psutil.Process(run.pid).children(recursive=True)
    finally:
        run.kill()
        run.wait()
    assert len(family) >= 2
    assert len(read_json_lines(struck / "run" / "metrics.jsonl")) == 1
    assert not psutil.wait_procs(family, timeout=15 if kind == "class" else 40)[1], "processes of tools outlive the run"
    (struck / "kill").unlink()
    launch(command, struck)
    assert differences(whole / "run", struck / "run") == []
    metrics = read_json_lines(struck / "run" / "metrics.jsonl")
    assert len(metrics) == 2 and all(line["tool_calls"] > 0 for line in metrics)


def wait_for(is_so: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_whatever_an_interrupted_run_left_otherwise_is_named(tmp_path: Path) -> None:
    whole, struck = tmp_path / "whole", tmp_path / "struck"
    for folder in (whole, struck):
        (folder / "checkpoints").mkdir(parents=True)
        (folder / "metrics.jsonl").write_text('{"step": 1, "reward": 0.5}\n')
        (folder / "checkpoints" / "model.safetensors").write_bytes(b"weights")
        (folder / "timings.jsonl").write_text(folder.name)
    assert differences(whole, struck) == []
    (struck / "metrics.jsonl").write_text('{"step": 1, "reward": 0.25}\n')
    (struck / "checkpoints" / "model.safetensors").unlink()
    (struck / "checkpoints" / ".step-000002.abc.rlzoo-partial").touch()
    assert sorted(differences(whole, struck)) == [
        "checkpoints/.step-000002.abc.rlzoo-partial is left over",
        "checkpoints/model.safetensors is missing",
        "metrics.jsonl differs",
    ]
