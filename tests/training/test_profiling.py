"""A run with `log.profile` leaves a trace of that step, by torch's profiler, and is otherwise the run without."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from rlzoo.errors import UserError, is_disk_full
from rlzoo.experiment.claim import claim
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.ownership import SIGNED
from rlzoo.report.run_files import write_reports
from rlzoo.report.terminal import Terminal
from rlzoo.rollout.sampler import PHASES
from rlzoo.training.run import profiled, train
from tests.training.test_train import run, small

WORDS = ("objective=grpo", "checkpoint.every=1", "checkpoint.keep=9")


def spans(trace: Path) -> list[dict[str, Any]]:
    """The named spans of a trace that are ours, and those of the profiler's steps, as they began."""
    events = json.loads(trace.read_text())["traceEvents"]
    named = [event for event in events if event.get("name", "").startswith(("rlzoo/", "ProfilerStep#"))]
    return sorted(named, key=lambda event: float(event["ts"]))


def files(folder: RunFolder) -> dict[str, bytes]:
    """The files of a run but its traces, by name; empty where time or the run's own words decide the content."""
    there = [path for path in folder.path.rglob("*") if path.is_file() and folder / "profile" not in path.parents]
    own = {folder.timings, folder.config, folder / SIGNED, *folder.path.rglob("README.md")}
    return {str(path.relative_to(folder.path)): b"" if path in own else path.read_bytes() for path in there}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Two steps of which none is traced."""
    return run(tmp_path_factory.mktemp("runs") / "run", "train.steps=2", *WORDS)


@pytest.fixture
def resumable(plain: RunFolder, tmp_path: Path) -> RunFolder:
    """A copy of it."""
    return RunFolder(shutil.copytree(plain.path, tmp_path / "run"))


@pytest.mark.slow
def test_a_trace_has_one_step_and_its_phases_and_all_else_is_bitwise_the_same(
    plain: RunFolder, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    console = Console(width=80)
    profiled_run = train(
        small(tmp_path / "run", "train.steps=2", "log.profile=2", *WORDS), Terminal(console), write_reports
    )
    assert files(profiled_run) == files(plain) and not (plain / "profile").exists()
    (trace,) = (path for path in (profiled_run / "profile").rglob("*") if path.is_file())
    assert trace == profiled_run.profile(2) / "process-0.pt.trace.json"
    step, *phases = spans(trace)
    assert step["name"] == "ProfilerStep#2" and {span["name"] for span in phases} == {f"rlzoo/{it}" for it in PHASES}
    assert all(step["ts"] <= span["ts"] and span["ts"] + span["dur"] <= step["ts"] + step["dur"] for span in phases)
    said = capfd.readouterr()
    assert said.out.count(str(profiled_run.profile(2))) == 1 and "profile" not in said.err and not said.err


@pytest.mark.slow
def test_a_resumed_run_traces_a_step_that_is_left_and_refuses_one_that_is_done_without_a_trace(
    resumable: RunFolder, plain: RunFolder
) -> None:
    words = (*WORDS, "resume=true")
    with pytest.raises(
        UserError, match=r"log\.profile=2 has no effect: .* has done step 2 .*name one of 3 to 4, or leave"
    ):
        claim(resumable, small(resumable.path, "train.steps=4", "log.profile=2", *words))
    with pytest.raises(UserError, match=r"log\.profile=1 has no effect: .*; leave it out"):
        claim(resumable, small(resumable.path, "train.steps=2", "log.profile=1", *words))
    run(resumable.path, "train.steps=3", "log.profile=3", *words)
    assert list(resumable.profiles()) == [3] and spans(resumable.profile(3) / "process-0.pt.trace.json")
    claim(resumable, small(resumable.path, "train.steps=3", "log.profile=3", *words)).close()


def test_a_step_that_fails_leaves_no_trace(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), profiled(RunFolder(tmp_path), 1, 0, print):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


def test_a_trace_that_is_cut_short_is_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(profiler: object, path: str) -> None:
        Path(path).write_text('{"traceEvents": [')

    monkeypatch.setattr(torch.profiler.profile, "export_chrome_trace", cut)
    with pytest.raises(OSError, match="No space left") as error, profiled(RunFolder(tmp_path), 1, 0, print):
        pass
    assert is_disk_full(error.value) and not [path for path in tmp_path.rglob("*") if path.is_file()]
