"""What breaks a run from outside is one line that names the file and the way out; nothing is lost without notice."""

import errno
import math
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from torch.distributed import DistBackendError, DistNetworkError

import rlzoo
from rlzoo.commands import main
from rlzoo.errors import fault_in
from rlzoo.experiment.progress import checkpoints, step_of
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import read_json_lines
from rlzoo.model.pretrained import write_manifest
from rlzoo.rollout.transformers_engine import TransformersEngine
from rlzoo.training import run as loop
from rlzoo.training.step import Trainer
from tests.conftest import error_of, fault_of
from tests.thinned import thinned

WORDS = ("objective=grpo", "rollout.prompts_per_step=4", "rollout.responses_per_prompt=4", "checkpoint.every=2")
SMALL = (*WORDS, "evaluation.problems=4", "evaluation.samples=2")
CHECKPOINT = "checkpoints/step-000004"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four steps."""
    return rlzoo.train(*SMALL, "train.steps=4", output=tmp_path_factory.mktemp("runs") / "run", progress=False).folder


@pytest.fixture
def run(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A copy of it, in the working directory."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(whole, "run")
    return RunFolder(Path("run"))


def cut(path: Path, share: float = 0.5) -> None:
    """Leaves the first part of a file."""
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])


def halve_line(path: Path) -> None:
    """Leaves the first half of the second line."""
    lines = path.read_text().split("\n")
    path.write_text("\n".join([lines[0], lines[1][: len(lines[1]) // 2], *lines[2:]]))


def keep_three_lines(path: Path) -> None:
    """Leaves the first three lines."""
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))


def begin_with(line: str, path: Path) -> None:
    """Puts a line before the others."""
    path.write_text(f"{line}\n{path.read_text()}")


FULL = "No space left on device"
LAST = "evaluation/step-000004-T1-p1.jsonl"
GO_ON = ("train", *SMALL, "output=run", "resume=true")
DAMAGE: list[tuple[Callable[[Path], None], str, tuple[str, ...], str]] = [
    (cut, f"{CHECKPOINT}/model.safetensors", ("inspect", "run", "step=4"), "remove this folder"),
    (cut, f"{CHECKPOINT}/model.safetensors", ("eval", f"run/{CHECKPOINT}"), CHECKPOINT),
    (halve_line, "metrics.jsonl", (*GO_ON, "train.steps=5"), "metrics.jsonl is damaged: line 2"),
    (halve_line, "metrics.jsonl", ("leaderboard", "run"), "metrics.jsonl is damaged: line 2"),
    (cut, "metrics.jsonl", ("leaderboard", "run"), "it has lost steps 2, 3, 4"),
    (cut, LAST, (*GO_ON, "train.steps=4"), f"{LAST} is damaged: it ends after "),
    (cut, LAST, ("leaderboard", "run"), f"{LAST} is damaged: it ends after "),
    (halve_line, LAST, (*GO_ON, "train.steps=4"), f"{LAST} is damaged: line 2"),
    *(
        (partial(begin_with, line), file, ("leaderboard", "run"), f"{file} is damaged: line 1 {says}")
        for file in ("metrics.jsonl", "timings.jsonl", LAST)
        for line, says in (("{}", "has no"), ("5", "is no record"), ("[" * 100_000, "is not readable"))
    ),
    (partial(begin_with, "{}"), "metrics.jsonl", (*GO_ON, "train.steps=5"), "metrics.jsonl is damaged: line 1 has no"),
    (
        partial(begin_with, "5"),
        "responses.jsonl",
        (*GO_ON, "train.steps=5"),
        "responses.jsonl is damaged: line 1 is no",
    ),
    (lambda path: cut(path, 0), "config.yaml", ("eval", "run"), "config.yaml' holds no keys"),
    (lambda path: cut(path, 0), "config.yaml", GO_ON, "config.yaml' holds no keys"),
    (keep_three_lines, "config.yaml", ("eval", "run"), "config.yaml has lost"),
    (lambda path: cut(path, 0.5), "objective.json", ("inspect", "run"), "objective.json is not readable"),
]


@pytest.mark.parametrize(("damage", "file", "words", "says"), thinned(DAMAGE, 3))
def test_a_damaged_file_is_one_line_that_names_it(
    damage: Callable[[Path], None],
    file: str,
    words: tuple[str, ...],
    says: str,
    run: RunFolder,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(run / file)
    assert says in error_of(capsys, *words)


def test_a_run_is_not_resumed_to_fewer_steps_than_it_has(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    before = run.config.read_bytes()
    assert "train.steps=3, but the run in run has 4 steps already" in error_of(capsys, *GO_ON, "train.steps=3")
    assert run.config.read_bytes() == before


@pytest.mark.slow
def test_a_finished_run_that_is_resumed_says_so_and_loads_nothing(
    run: RunFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "load_trainer", None)
    assert main([*GO_ON, "train.steps=4"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("run is finished: nothing is left to train") and "each step" not in said


@pytest.mark.slow
def test_an_output_that_is_a_file_is_refused(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").write_text("mine")
    assert "output=file is a file" in error_of(capsys, "train", *SMALL, "output=file")
    assert "output=file/run cannot be written" in error_of(capsys, "train", *SMALL, "output=file/run")
    assert "output=file cannot be written" in error_of(capsys, "compare", "grpo", "seeds=0", *SMALL[1:], "output=file")
    assert Path("file").read_text() == "mine"


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, FULL), RuntimeError(f"I/O error: {FULL} (os error 28)")])
def test_a_full_disk_is_one_line_that_says_what_is_saved(
    error: Exception, run: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*arguments: object) -> None:
        raise error

    monkeypatch.setattr(loop, "append_json_line", full)
    said = fault_of(capsys, *GO_ON, "train.steps=5")
    assert "output=run: the disk is full" in said and "step 4 is saved; resume=true goes on" in said


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."), "train.tokens_per_micro_batch=16384 holds"),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
            "8192",
        ),
        (MemoryError(), "rollout.rows_per_batch=512"),
    ],
)
def test_too_little_memory_is_one_line_that_names_the_keys_and_by_how_much(
    error: Exception,
    says: str,
    run: RunFolder,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(loop, "_record", lambda *_: raised(error))
    said = fault_of(capsys, *GO_ON, "train.steps=5")
    assert "out of memory" in said and says in said and "step 4 is saved; resume=true goes on" in said


GLOO = (
    "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:1233: Connection reset by peer"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "error", [RuntimeError(GLOO), DistBackendError("remote process exited"), DistNetworkError("x")]
)
def test_a_lost_process_is_one_line_that_says_what_is_saved(
    error: Exception, run: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "give the same command again" in fault_in(error)
    monkeypatch.setattr(loop, "_record", lambda *_: raised(error))
    said = fault_of(capsys, *GO_ON, "train.steps=5")
    assert "another process of this run is gone" in said and "step 4 is saved; resume=true goes on" in said


def test_too_little_memory_to_train_says_where_other_keys_begin(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loop, "load_trainer", lambda *_: raised(MemoryError()))
    said = fault_of(capsys, *GO_ON, "train.steps=5")
    assert "step 4 is saved; resume=true goes on from there; it needs the same keys; to change them, start" in said
    assert said.endswith(f"output= with model.name={run / CHECKPOINT}")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("eval", "run"), ("rollout.rows_per_batch=512 samples them at once, 256 half",)),
        (("inspect", "run"), ("train.tokens_per_micro_batch=16384 holds", "8192 half", "run/config.yaml says them")),
    ],
)
def test_too_little_memory_names_the_keys_where_nothing_is_trained(
    words: tuple[str, ...],
    says: tuple[str, ...],
    run: RunFolder,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
    monkeypatch.setattr(TransformersEngine, "generate", lambda *_, **__: raised(error))
    line = fault_of(capsys, *words)
    assert all(it in line for it in says) and "tried to allocate 9 bytes" in line


def raised(error: Exception) -> None:
    raise error


LOST = """
class Lost:
    def reset(self, **columns):
        raise ConnectionError("no server")

    def look(self) -> str:
        \"\"\"Looks.\"\"\"

    def get_reward(self) -> float:
        return 1.0
"""


@pytest.mark.parametrize("longest", [64, 8])
def test_a_run_whose_every_episode_is_lost_ends_with_an_error(
    longest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where some responses are cut, and count as that."""
    monkeypatch.chdir(tmp_path)
    Path("lost.py").write_text(LOST)
    words = (
        "model.name=embedded:calculator",
        "task.name=calculator",
        "task.environment=./lost.py:Lost",
        "train.steps=1",
    )
    words += ("rollout.prompts_per_step=2", "rollout.responses_per_prompt=4", f"rollout.max_response_tokens={longest}")
    said = fault_of(capsys, "train", *words, "evaluation.problems=1", "evaluation.samples=1", "output=run")
    assert "no response of the last 1 steps has a grade" in said
    (step,) = read_json_lines(Path("run") / "metrics.jsonl")
    assert 0 < step["truncated"] < 1 if longest == 8 else step["truncated"] == 0


def test_a_folder_that_vanishes_is_one_line(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = loop._record

    def vanishing(folder: RunFolder, *others: Any) -> None:
        shutil.rmtree(folder.path)
        record(folder, *others)

    monkeypatch.setattr(loop, "_record", vanishing)
    assert "output=run has vanished" in fault_of(capsys, *GO_ON, "train.steps=5")


@pytest.mark.parametrize(
    ("words", "file"),
    [(("leaderboard", "run"), "runs/leaderboard/"), (("eval", "run"), "run/evaluation/")],
)
def test_a_full_disk_is_one_line_of_every_command(
    words: tuple[str, ...],
    file: str,
    run: RunFolder,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "fsync", lambda *_: raised(OSError(errno.ENOSPC, FULL)))
    said = fault_of(capsys, *words)
    assert said.startswith(f"rlzoo: {file}") and ": the disk is full; make room" in said


def test_weights_that_are_no_numbers_are_one_line(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    weights = load_file(run / CHECKPOINT / "model.safetensors")
    name = next(iter(weights))
    weights[name].view(-1)[0] = math.nan
    save_file(weights, run / CHECKPOINT / "model.safetensors", metadata={"format": "pt"})
    for checkpoint in checkpoints(run / "checkpoints"):
        write_manifest(checkpoint, step_of(checkpoint))
    assert name in error_of(capsys, "eval", "run") and CHECKPOINT in error_of(capsys, "inspect", "run")
    assert "no number" in error_of(capsys, "eval", "run")


@pytest.mark.slow
def test_a_run_whose_updates_are_all_skipped_fails(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Trainer, "_take_step", lambda self, tally: self.optimizer.zero_grad() or False)
    assert "every update is skipped" in fault_of(capsys, "train", *SMALL, "train.steps=2", "output=new")
    assert RunFolder(Path("new")).curves.exists()


def test_a_checkpoint_is_evaluated_with_the_limits_of_its_run(
    run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", f"run/{CHECKPOINT}", "evaluation.samples=1"]) == 0
    assert "at most 24 tokens" in capsys.readouterr().out
    assert list((run / "evaluation").glob("sums-*.jsonl"))


def test_every_file_of_a_run_is_readable_by_a_group(run: RunFolder) -> None:
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in run.path.rglob("*") if path.name != ".lock")
