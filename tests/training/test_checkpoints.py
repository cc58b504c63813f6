"""A checkpoint is what was saved, byte for byte, or it is named and the one before is taken; a kill loses none."""

import errno
import itertools
import json
import logging
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest
from safetensors.torch import load_file, save_file

import rlzoo
from rlzoo.commands import main
from rlzoo.config import ModelConfig
from rlzoo.errors import UserError
from rlzoo.evaluation.target import read_target
from rlzoo.experiment.progress import (
    OPTIMIZER,
    PROGRESS,
    check_whole,
    checkpoints,
    damage,
    newest_whole,
    readable,
    step_of,
)
from rlzoo.model import pretrained
from rlzoo.model.pretrained import MANIFEST, locate, write_manifest
from rlzoo.training import checkpoint as saving
from tests.conftest import error_of
from tests.thinned import thinned

WORDS = ("objective=grpo", "rollout.prompts_per_step=2", "rollout.responses_per_prompt=4", "checkpoint.every=2")
SMALL = (*WORDS, "task.problems=50", "evaluation.problems=2", "evaluation.samples=1")
GO_ON = ("train", *SMALL, "train.steps=5", "output=run", "resume=true")
LAST = Path("run/checkpoints/step-000004")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of five steps that was not disturbed, and is at its fourth."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    rlzoo.train(*SMALL, "train.steps=4", output=folder, progress=False)
    shutil.copytree(folder, folder.with_name("before"))
    rlzoo.train(*SMALL, "train.steps=5", output=folder, resume=True, progress=False)
    return folder


@pytest.fixture
def run(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it as it was after the fourth step, in the working directory."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(whole.with_name("before"), "run"))


def flip(path: Path) -> None:
    """Turns a bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def without_a_tensor(path: Path) -> None:
    """A file of tensors that is whole but for one."""
    tensors = load_file(path)
    tensors.pop(next(iter(tensors)))
    save_file(tensors, path, metadata={"format": "pt"})


def of_another_step(path: Path) -> None:
    """Progress that is well written, and wrong."""
    path.write_text(json.dumps({**json.loads(path.read_text()), "step": 3}))


DAMAGE: list[tuple[Callable[[Path], None], str]] = [
    *((flip, name) for name in ("model.safetensors", OPTIMIZER, PROGRESS, "config.json", MANIFEST)),
    *((without_a_tensor, name) for name in ("model.safetensors", OPTIMIZER)),
    *((Path.unlink, name) for name in ("model.safetensors", OPTIMIZER, PROGRESS, "config.json", MANIFEST)),
    (of_another_step, PROGRESS),
    (of_another_step, MANIFEST),
]


@pytest.mark.parametrize(("harm", "name"), thinned(DAMAGE, 3))
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_taken(
    harm: Callable[[Path], None], name: str, run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert newest_whole(run / "checkpoints") == LAST and not caplog.records
    harm(LAST / name)
    assert damage(LAST) if name == MANIFEST else Path(name).name in damage(LAST)
    assert newest_whole(run / "checkpoints") == LAST.with_name("step-000002")
    assert str(LAST) in caplog.text and "the one before it is taken" in caplog.text
    with pytest.raises(UserError, match="is damaged"):
        check_whole(LAST)


@pytest.mark.slow
def test_a_run_goes_on_from_the_one_before_to_the_same_end(
    run: Path, whole: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flip(LAST / "model.safetensors")
    with caplog.at_level(logging.WARNING):
        assert main([*GO_ON]) == 0
    assert "model.safetensors is not what was saved; the one before it is taken" in caplog.text
    assert (run / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()
    weights = "checkpoints/step-000005/model.safetensors"
    assert (run / weights).read_bytes() == (whole / weights).read_bytes()


@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.EMFILE, "Too many open files"), UserError("gone")])
def test_what_no_file_is_to_blame_for_is_no_damage(error: Exception) -> None:
    with pytest.raises(type(error)) as told, readable(LAST):
        raise error
    assert told.value is error


def test_too_many_open_files_are_no_damage(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretrained, "checksum", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
    with pytest.raises(OSError, match="Too many"):
        newest_whole(run / "checkpoints")


def test_where_all_are_damaged_nothing_begins_anew(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for checkpoint in checkpoints(run / "checkpoints"):
        (checkpoint / PROGRESS).unlink()
    assert main([*GO_ON]) == 2
    assert "is damaged: it has no training/progress.json" in capsys.readouterr().err


@pytest.mark.slow
def test_a_checkpoint_without_checksums_is_a_model_outside_and_its_run_goes_on(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (LAST / MANIFEST).unlink()
    assert "move this folder out of the run, where model.name= still reads it" in error_of(capsys, "eval", LAST)
    shutil.move(LAST, "moved")
    assert main(["eval", "moved", "task.name=sums", "evaluation.problems=2", "evaluation.samples=1"]) == 0
    assert main([*GO_ON, "model.name=embedded:sums"]) == 0 and (LAST / MANIFEST).is_file()


def test_moments_that_lack_are_seen_where_the_checksums_are_right(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = load_file(LAST / OPTIMIZER)
    save_file({name: it for name, it in tensors.items() if name != "0.exp_avg"}, LAST / OPTIMIZER)
    write_manifest(LAST, 4)
    assert main([*GO_ON]) == 2
    assert "parameter 0 has no exp_avg;" in capsys.readouterr().err


MODEL = LAST / "model.safetensors"
WHAT_READS: list[tuple[str, tuple[str, ...]]] = [
    ("model.name", ("train", *SMALL, f"model.name={LAST}", "output=new")),
    ("model.reference", ("train", *SMALL[1:], f"model.reference={LAST}", "objective=grpo+kl", "output=new")),
    ("model.teacher", ("train", *SMALL[1:], f"model.teacher={LAST}", "objective=opd", "output=new")),
    ("the checkpoint", ("push", "run", "someone/model")),
    ("the checkpoint", ("eval", str(LAST))),
]


@pytest.mark.parametrize(("named", "words"), WHAT_READS)
def test_a_damaged_checkpoint_is_no_model(
    named: str, words: tuple[str, ...], run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(LAST / "model.safetensors")
    line = error_of(capsys, *words)
    assert named in line and "model.safetensors is not what was saved" in line


def test_a_model_needs_nothing_of_what_training_goes_on_from(run: Path) -> None:
    copy = Path(shutil.copytree(LAST, "model"))
    flip(copy / OPTIMIZER)
    assert locate(ModelConfig(name=str(copy))).path == str(copy)
    flip(copy / "config.json")
    with pytest.raises(UserError, match="is damaged"):
        locate(ModelConfig(name=str(copy)))


def test_one_process_of_a_machine_reads_a_model_for_its_checksums(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[Path]()
    monkeypatch.setattr(pretrained, "_checksum", lambda path, *_: read.append(path) or "")
    model = ModelConfig(name=str(LAST))
    torchrun = ("TORCHELASTIC_RUN_ID", "LOCAL_RANK")
    for environment, reads in {
        ("none", "1"): False,
        ("none", "0"): True,
        ("none", None): True,
        (None, "1"): True,
    }.items():
        for name, value in zip(torchrun, environment, strict=True):
            monkeypatch.delenv(name, raising=False)
            if value is not None:
                monkeypatch.setenv(name, value)
        read.clear()
        with pytest.raises(UserError, match="is damaged") if reads else nullcontext():
            locate(model)
        assert bool(read) == reads


def test_an_evaluation_takes_the_newest_that_is_whole(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    flip(LAST / "model.safetensors")
    target = read_target(str(run), ())
    assert target.run == {"folder": str(run), "step": 2} and target.folder == run / "evaluation" / "step-000002"
    assert len([it for it in caplog.messages if "the one before it is taken" in it]) == 1


@pytest.mark.slow
def test_a_kill_between_the_two_renames_loses_nothing(run: Path, whole: Path) -> None:
    partial = LAST.with_name(f".{LAST.name}.abcdefgh.rlzoo-partial")
    partial.touch()
    LAST.rename(partial.with_suffix(".old"))
    shutil.copytree(whole / "checkpoints/step-000004", partial.with_suffix(".new"))
    shutil.rmtree(LAST.with_name("step-000002"))
    assert main([*GO_ON]) == 0
    assert (run / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()
    assert [path.name for path in sorted((run / "checkpoints").iterdir())] == ["step-000004", "step-000005"]


@pytest.mark.slow
def test_what_is_saved_is_not_saved_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "folder_written_atomically", None)
    before = (LAST / MANIFEST).stat().st_mtime_ns
    assert main(["train", *SMALL, "train.steps=4", "output=run", "resume=true"]) == 0
    assert (LAST / MANIFEST).stat().st_mtime_ns == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seconds", "saved"),
    [
        pytest.param(0, [4], marks=pytest.mark.slow),
        (30, [2, 4]),
        pytest.param(3600, [1, 2, 3, 4], marks=pytest.mark.slow),
    ],
)
def test_the_clock_says_when_to_save_and_nothing_else(
    seconds: int, saved: list[int], whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(0, seconds)
    monkeypatch.setattr(saving, "monotonic", lambda: next(clock))
    words = ("train.steps=4", "checkpoint.every=0", "checkpoint.keep=9", "checkpoint.minutes=1")
    folder = rlzoo.train(*SMALL, *words, output=tmp_path / "run", progress=False).folder
    assert [step_of(path) for path in checkpoints(folder / "checkpoints")] == saved
    for name in ("metrics.jsonl", "responses.jsonl", f"checkpoints/step-000004/{OPTIMIZER}"):
        assert (folder / name).read_bytes() == (whole.with_name("before") / name).read_bytes()
