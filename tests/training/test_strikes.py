"""What is under way when a signal comes is read from the files of all runs that a command holds."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.faults.striking import under_way
from rlzoo.comparing.grid import read_grid
from rlzoo.config import load_config, to_yaml
from rlzoo.config.decoding import read_decodings
from rlzoo.experiment.claim import LOCK
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import locked, write_json

WORDS = ["task.name=sums", "train.steps=4", "evaluation.every=2"]


@pytest.fixture
def held() -> Iterator[ExitStack]:
    """Locks that something holds until the test ends."""
    with ExitStack() as locks:
        yield locks


def hold(folder: Path, held: ExitStack) -> None:
    """As a process does that works in it."""
    lock = locked(folder / LOCK)
    assert lock is not None
    held.enter_context(lock)


def begun(folder: Path, held: ExitStack, steps: int, *evaluated: int) -> RunFolder:
    """A run that a process trains, after so many steps."""
    run = RunFolder(folder)
    (folder / "evaluation").mkdir(parents=True)
    run.config.write_text(to_yaml(load_config([*WORDS, f"output={folder}"])))
    run.metrics.write_text('{"step": 1}\n' * steps)
    for step in evaluated:
        (folder / "evaluation" / f"step-{step:06d}-one.jsonl").touch()
    hold(folder, held)
    return run


def test_the_stage_of_a_run_is_what_its_files_say_next(tmp_path: Path, held: ExitStack) -> None:
    assert under_way(tmp_path, 0.0) == "starting"
    stages = {
        "fresh": (0, (), "evaluating before the first step"),
        "first": (0, (0,), "training"),
        "amid": (1, (0,), "training"),
        "due": (2, (0,), "evaluating"),
        "done": (2, (0, 2), "training"),
        "last": (4, (0, 2), "evaluating"),
    }
    for name, (steps, evaluated, stage) in stages.items():
        run = begun(tmp_path / name, held, steps, *evaluated)
        assert under_way(run.path, 0.0) == stage, name
        assert under_way(run.path, run.metrics.stat().st_mtime + 1) == "loading"
    (run.path / "checkpoints" / ".step-000004.rlzoo-partial").mkdir(parents=True)
    assert under_way(run.path, 0.0) == "saving"


def test_what_a_grid_does_is_what_all_its_runs_do_and_its_board_comes_last(tmp_path: Path, held: ExitStack) -> None:
    grid, _ = read_grid(["grpo", "stapo", "seeds=0", *WORDS, f"output={tmp_path}"])
    grid.save()
    hold(tmp_path, held)
    assert under_way(tmp_path, 0.0) == "setting up"
    with ExitStack() as trained:
        for cell, steps in zip(grid.cells, (2, 1), strict=True):
            begun(cell.folder.path, trained, steps, 0)
        assert under_way(tmp_path, 0.0) == "evaluating and training"
    for cell in grid.cells:
        assert under_way(tmp_path, 0.0) == "setting up"
        (decoding,) = read_decodings(cell.config.evaluation.decodings)
        cell.folder.evaluation(cell.config.train.steps, decoding).touch()
        write_json(cell.folder.end, {"step": cell.config.train.steps})
    assert under_way(tmp_path, 0.0) == "concluding"
