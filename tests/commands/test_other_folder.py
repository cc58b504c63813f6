"""A run with a method of one's own, looked at or gone on with from another folder: one line says what to type."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from objectives import CODE_FOLDERS, parse
from objectives.zoo import PARTS
from rlzoo.comparing.launchers import command
from rlzoo.config import load_config
from rlzoo.experiment.identity import keep_sources
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


LOG = "step,reward,entropy\n" + "".join(f"{step},0.5,1.0\n" for step in range(30))
ANSWER = '{"gold": "3", "response": "\\\\boxed{3}", "prompt": "1+2="}\n'
INSTALLED = "import sys; from rlzoo.commands import main; sys.exit(main(sys.argv[1:]))"


GRADE = ("grade", "answers.jsonl", "output=graded.jsonl")


@pytest.mark.parametrize("words", [("doctor", "log.csv"), pytest.param(GRADE, marks=pytest.mark.slow)])
@pytest.mark.parametrize("start", [("../bin/rlzoo",), ("-m", "rlzoo")])
def test_a_file_of_the_working_directory_that_is_called_as_a_package_is_not_run(
    start: tuple[str, ...], words: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "rlzoo").write_text(INSTALLED)
    tmp_path = tmp_path / "here"
    tmp_path.mkdir()
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "answers.jsonl").write_text(ANSWER)
    for name in ("uarray", "brotlicffi", "statistics"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w')\n")
    done = subprocess.run([sys.executable, *start, *words], cwd=tmp_path, capture_output=True, timeout=120)
    assert done.returncode in (0, 1) and done.stdout and not (tmp_path / "marker").exists(), done.stderr.decode()


def test_a_run_of_a_grid_starts_beside_a_users_own_statistics_file(tmp_path: Path) -> None:
    (tmp_path / "statistics.py").write_text("raise SystemExit('not the one of Python')\n")
    done = subprocess.run(command(["show=config"], 1), cwd=tmp_path, capture_output=True, timeout=120)
    assert done.returncode == 0 and b"objective:" in done.stdout, done.stderr.decode()


def test_the_working_directory_can_be_imported_from_only_while_a_typed_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "far_method.py").write_text(f"import far_bounds\n{METHOD}")
    (tmp_path / "far_bounds.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "path", [it for it in sys.path if it])
    folders = [*CODE_FOLDERS]
    try:
        parse("grpo+far_method:far_part")
        assert str(tmp_path) not in sys.path and "far_bounds" in sys.modules
        assert [*folders, str(tmp_path)] == CODE_FOLDERS, "what other processes are given to find it"
    finally:
        CODE_FOLDERS[:] = folders
        sys.modules.pop("far_bounds", None)
        forget()
