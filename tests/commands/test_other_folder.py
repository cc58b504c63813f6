"""A run with a method of one's own, looked at or gone on with from another folder: one line says what to type."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from objectives import parse
from objectives.zoo import PARTS
from rlzoo.config import load_config
from rlzoo.experiment.code import keep_sources
from rlzoo.experiment.run_folder import RunFolder
from tests.comparing.finished_runs import make_run
from tests.conftest import error_of

METHOD = """
from objectives import Mask, register

@register
class Mine(Mask):
    name = "far_part"

    def keeps(self, batch):
        return batch.mask
"""


def forget() -> None:
    """What a new process would not have imported."""
    sys.modules.pop("far_method", None)
    PARTS.pop("far_part", None)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run that was trained in the folder of its method, seen from another one."""
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "there" / "far_method.py").write_text(METHOD)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with monkeypatch.context() as there:
        there.chdir(tmp_path / "there")
        there.syspath_prepend(tmp_path / "there")
        made = make_run(tmp_path / "there" / "run", "grpo+far_method:far_part")
        config = load_config(["objective=grpo+far_method:far_part"])
        keep_sources(RunFolder(made).source, config, parse(config.objective))
    forget()
    monkeypatch.chdir(tmp_path / "here")
    yield made
    forget()


@pytest.mark.slow
def test_where_the_module_of_a_run_is_looked_for_is_said_and_the_copy_that_the_run_keeps_will_do(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"add trust={run}/config.yaml if you trust it" in error_of(capsys, "inspect", run)
    remedy = "go to the folder where far_method lies, or put PYTHONPATH=FOLDER before the command (a run keeps a copy"
    resumed = ("train", f"output={run}", "resume=true", "objective=grpo+far_method:far_part")
    for words in (("inspect", run, f"trust={run}"), resumed):
        assert remedy in error_of(capsys, *words)
    monkeypatch.syspath_prepend(run / "source")
    assert "grpo+far_method:far_part" in str(parse("grpo+far_method:far_part"))
    for words in (("inspect", run, f"trust={run}"), resumed):
        assert "cannot import" not in error_of(capsys, *words)  # it has no weights, and other settings


def test_a_task_of_a_run_that_a_file_here_does_not_define_is_said_with_where_to_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    message = error_of(capsys, "train", "task.name=./far_task.py:Task")
    assert f"there is no file ./far_task.py in {tmp_path}; go to the folder that it is named from" in message
    message = error_of(capsys, "train", "task.name=far_task:Task")
    assert "No module named 'far_task'; go to the folder where far_task lies, or put PYTHONPATH=FOLDER" in message
