"""What an earlier version of rlzoo recorded is read, and what code a version is says what was changed in it."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from objectives.zoo import PARTS, RECIPES
from rlzoo.commands import main
from rlzoo.comparing.grid import read_grid
from rlzoo.experiment.claim import claim
from rlzoo.experiment.identity import read_objective
from rlzoo.experiment.machine import code_state
from rlzoo.experiment.run_folder import RunFolder

RECORDED = Path(__file__).parents[1] / "data" / "older_version"
"""A grid of `grpo` and of it with a part from outside, of the version that knew objectives by a numeric fingerprint."""


@pytest.fixture
def older(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of it in the working directory."""
    shutil.copytree(RECORDED, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in ("mine", "bounds"):
        sys.modules.pop(name, None)
    PARTS.pop("sparo", None)
    RECIPES.pop("sparo_grpo", None)


def test_runs_and_a_grid_of_an_earlier_version_are_read_and_gone_on_with(
    older: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["leaderboard", "grid"]) == 0
    page = Path("grid/leaderboard.md").read_text()
    assert "grpo+mine:sparo" in page and "Which version of the code of grid/grpo+mine-sparo-0 it was" in page
    assert "mine" not in sys.modules
    sizes = ["train.steps=5", "rollout.prompts_per_step=2", "rollout.responses_per_prompt=4", "task.problems=50"]
    sizes += ["evaluation.problems=4", "evaluation.samples=2", "evaluation.decodings=[1/1]"]
    grid, _ = read_grid(["grpo", "grpo+mine:sparo", *sizes, "output=grid", "seeds=0"])
    assert [cell.folder.path.name for cell in grid.cells] == ["grpo-0", "grpo+mine-sparo-0"]
    assert "which code of mine:sparo it is of; it counts as that of today" in caplog.text
    for cell in grid.cells:
        run = RunFolder(cell.folder.path)
        claim(run, replace(run.read_config(), resume=True)).close()
        recorded = read_objective(run.path)
        assert recorded.code is not None and len(recorded.versions) == 1


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)


def state(root: Path) -> str | None:
    """What a new process would find."""
    code_state.cache_clear()
    return code_state(root)


def test_code_is_known_by_its_commit_and_by_what_is_changed_in_it(tmp_path: Path) -> None:
    root = tmp_path / "site" / "packages"
    (root / "rlzoo").mkdir(parents=True)
    (root / "rlzoo" / "__init__.py").write_text("one = 1\n")
    assert state(root) is None
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--allow-empty", "--message", "an environment inside of somebody's repository")
    assert state(root) is None
    git(root, "add", ".")
    git(root, "commit", "--message", "first")
    first = state(root)
    assert first is not None and len(first) == 12
    (root / "notes.txt").write_text("no code")
    assert state(root) == first
    (root / "rlzoo" / "__init__.py").write_text("one = 2\n")
    edited = state(root)
    assert edited is not None and edited.startswith(f"{first}+")
    (root / "rlzoo" / "new.py").write_text("two = 2\n")
    added = state(root)
    assert added is not None and added.startswith(f"{first}+") and added != edited
    git(root, "add", ".")
    git(root, "commit", "--message", "second")
    assert state(root) not in (None, first) and "+" not in str(state(root))
