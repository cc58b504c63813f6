"""Nothing is written through a link that lies in a run or a grid: what it leads to is not theirs."""

# ruff: noqa: F811

import shutil
from pathlib import Path

import pytest

from rlzoo.experiment.claim import claim
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.inspecting.microscope import PAGES
from tests.conftest import error_of
from tests.test_stranger import WORDS, clean, marker, records, run  # noqa: F401


def contents(folder: Path) -> dict[str, bytes]:
    """Everything in a folder."""
    return {str(it.relative_to(folder)): it.read_bytes() for it in folder.rglob("*") if it.is_file()}


LINKED = (".lock", "checkpoints", "checkpoints/step-000001/training", "evaluation", "metrics.jsonl", "source", PAGES)


@pytest.mark.parametrize("name", LINKED)
def test_nothing_is_written_through_a_link_in_a_run(
    name: str, run: Path, marker: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = marker.parent / "outside"
    outside.mkdir()
    (outside / "step-000000").mkdir()
    (outside / "step-000000" / "precious").touch()
    if (run / name).exists():
        shutil.move(run / name, outside / "theirs")
    target = outside / ("new" if name == ".lock" else "theirs" if (outside / "theirs").exists() else "")
    (run / name).symlink_to(target)
    before = contents(outside)
    (run / "finished.json").unlink()
    refused = f"{run / name} is a link"
    words = (*WORDS, "objective=grpo", "train.steps=2", "resume=true", f"output={run}")
    assert refused in error_of(capsys, "train", *words)
    if name in ("checkpoints", "evaluation"):
        assert refused in error_of(capsys, "eval", run)
    if name == "evaluation":
        assert refused in error_of(capsys, "grade", "regrade=true", records(run))
    if name == PAGES:
        assert refused in error_of(capsys, "inspect", run)
    assert contents(outside) == before and not (outside / "new").exists()


def test_nothing_is_written_through_a_link_in_a_grid(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid, words = run.parent.parent / "grid", ("compare", "grpo", *WORDS, "seeds=0", "train.schedule=constant")
    grid.mkdir()
    for name, place in (("grpo-0", run), ("logs", run.parent)):
        (grid / name).symlink_to(place)
        before = contents(run.parent)
        assert f"{grid / name} is a link" in error_of(capsys, *words, f"output={grid}")
        assert contents(run.parent) == before
        (grid / name).unlink()


def test_a_run_itself_may_be_a_link(run: Path, marker: Path) -> None:
    moved = shutil.move(run, marker.parent / "elsewhere")
    run.symlink_to(moved)
    (run / "wandb").mkdir()
    (run / "wandb" / "latest-run").symlink_to("run-1")
    claim(RunFolder(run), RunFolder(run).read_config(["resume=true"])).close()
