"""Launchers whose processes do not join are found out."""

import sys
from pathlib import Path

import pytest

from rlzoo.config import load_config
from rlzoo.errors import UserError
from rlzoo.model.accelerator import check_joined
from rlzoo.report.terminal import Terminal
from rlzoo.training.run import train
from tests.processes import failure

ACCELERATE = {"ACCELERATE_USE_CPU": "True", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


@pytest.mark.parametrize(
    ("processes", "environment"),
    [
        (1, {}),
        (1, {"MASTER_ADDR": "127.0.0.1"}),
        (1, {"ACCELERATE_USE_CPU": "True"}),
        (1, {"WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}),
        (2, {"WORLD_SIZE": "2", "RANK": "1"}),
        (2, ACCELERATE | {"WORLD_SIZE": "2"}),
        (4, {"OMPI_COMM_WORLD_SIZE": "4"}),
    ],
)
def test_processes_that_joined_go_on(processes: int, environment: dict[str, str]) -> None:
    check_joined(processes, environment)


@pytest.mark.parametrize(
    ("processes", "environment", "said"),
    [
        (1, ACCELERATE, "accelerate launch asked for several processes"),
        (1, {"WORLD_SIZE": "4"}, "asked for 4 processes, but 1 process runs by itself"),
        (2, {"PMI_SIZE": "4"}, "asked for 4 processes, but 2 joined"),
    ],
)
def test_fewer_processes_than_asked_for_are_refused(processes: int, environment: dict[str, str], said: str) -> None:
    with pytest.raises(UserError, match=f"{said}.*torchrun --nproc_per_node=N"):
        check_joined(processes, environment)


@pytest.mark.slow
def test_accelerate_launch_on_cpus_is_refused_in_one_line(tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2", "-m", "rlzoo"]
    said = failure([*launcher, "train", f"output={tmp_path / 'run'}", "train.steps=1"])
    errors = [line for line in said.splitlines() if line.startswith("rlzoo: error: ")]
    assert len(errors) == 1 and "torchrun --nproc_per_node=N" in errors[0]
    assert not (tmp_path / "run").exists()


def test_deterministic_algorithms_are_refused_on_the_cpu_where_they_have_no_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlzoo.training.checkpoint.load_policy", None)
    config = load_config(["train.deterministic=true", f"output={tmp_path / 'run'}"])
    with pytest.raises(UserError, match=r"train.deterministic=true has no effect on cpu: .*leave it out"):
        train(config, Terminal(quiet=True))
    assert not (tmp_path / "run").exists()
