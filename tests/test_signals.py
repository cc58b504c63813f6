"""A signal that asks a process to end is heard once, and ends a command with one line and the status of shells."""

import errno
import itertools
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

from rlzoo.commands import COMMANDS, main
from rlzoo.config import Config
from rlzoo.errors import Fault
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.signals import ENDING, Interrupted, heard
from rlzoo.training import run


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    """What a process does that was started by nobody special; a shell may have a signal ignored."""
    before = {number: signal.getsignal(number) for number in ENDING}
    for number in ENDING:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_that_meets_a_fault_on_its_way_says_what_the_fault_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lose_a_process(_: object) -> None:
        try:
            raise Fault("another process is gone; step 3 is saved")
        finally:
            raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr(COMMANDS["train"], "run", lose_a_process)
    assert main(["train"]) == 143
    assert capsys.readouterr().err == "\nrlzoo: interrupted; another process is gone; step 3 is saved\n"


def test_a_signal_that_comes_while_a_fault_is_dealt_with_says_what_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    def saved(_: object) -> str:
        monkeypatch.setattr(run, "_what_is_saved", lambda _: "step 3 is saved")
        raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr(run, "_what_is_saved", saved)
    folder = RunFolder(Path("run"))
    with (
        pytest.raises(Interrupted, match="step 3 is saved"),
        run._interrupted(folder),
        run._ended_early(folder, Config()),
    ):
        raise OSError(errno.ENOSPC, "full")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("command", ["train", "compare", "eval", "suite"])
def test_a_command_that_a_signal_ends_has_its_status_and_says_what_remains(
    number: signal.Signals,
    status: int,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    known = COMMANDS[command]
    interrupted = SimpleNamespace(
        SUMMARY=known.SUMMARY, declare=known.declare, run=lambda arguments: signal.raise_signal(number)
    )
    monkeypatch.setitem(COMMANDS, command, interrupted)
    assert main([command, *(["run"] if command == "eval" else [])]) == status
    said = capsys.readouterr().err
    assert said.startswith("\nrlzoo: interrupted; ") and said.count("\n") == 2
    assert [signal.getsignal(it) is signal.SIG_DFL for it in ENDING] == [True, False, True]


def test_the_same_signal_from_several_is_heard_once_and_ctrl_c_always() -> None:
    told: list[int] = []
    with heard(told.append):
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGINT):
            signal.raise_signal(number)
    assert told == [signal.SIGTERM, signal.SIGINT, signal.SIGINT]


def test_whoever_hears_last_is_told_and_the_others_again_after_it() -> None:
    told: list[int] = []
    with pytest.raises(Interrupted), heard():
        with heard(told.append):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)
    assert told == [signal.SIGTERM]


class Deleted:
    """A scheduler's signal comes while it is deleted, where Python drops whatever is raised."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def test_a_signal_that_comes_while_an_object_is_deleted_is_not_lost() -> None:
    before = sys.unraisablehook
    with pytest.raises(Interrupted) as interruption, heard():
        Deleted()
        time.sleep(30)
    assert interruption.value.number == signal.SIGTERM and sys.unraisablehook is before


@contextmanager
def _struck_in_call(number: int) -> Iterator[None]:
    """While the call of a function of so great a number meets a scheduler's signal."""
    calls = itertools.count()

    def meet(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and next(calls) == number:
            signal.raise_signal(signal.SIGTERM)

    sys.setprofile(meet)
    try:
        yield
    finally:
        sys.setprofile(None)


def test_a_signal_of_which_a_library_makes_another_error_is_not_lost(tmp_path: Path) -> None:
    save_file({str(number): torch.zeros(2) for number in range(9)}, tmp_path / "weights.safetensors")
    kinds = set()
    for moment in range(20):
        with pytest.raises((Interrupted, ValueError)) as error, heard(), _struck_in_call(moment):
            load_file(tmp_path / "weights.safetensors")
        kinds.add(type(error.value))
    assert kinds == {Interrupted}


def test_what_fails_while_an_interruption_is_dealt_with_is_said() -> None:
    with pytest.raises(OSError, match="the disk is full"), heard():
        try:
            signal.raise_signal(signal.SIGTERM)
        except Interrupted:
            raise OSError("the disk is full") from None


def test_what_is_ignored_or_somebody_elses_stays_so() -> None:
    told: list[int] = []
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup has it
    signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
    with heard():
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)
    assert told == [signal.SIGTERM]


CLOSED = """
import sys, time
from rlzoo.signals import Interrupted, heard
try:
    with heard():
        print("ready", flush=True)
        time.sleep(60)
except Interrupted:
    print("to nobody", flush=True)
    sys.exit(7)
"""


def test_a_terminal_that_is_closed_is_written_to_no_more() -> None:
    terminal, its_end = pty.openpty()
    command = ["setsid", "--ctty", "--wait", sys.executable, "-c", CLOSED]
    process = subprocess.Popen(command, stdin=its_end, stdout=its_end, stderr=its_end)
    os.close(its_end)
    assert os.read(terminal, 100).startswith(b"ready")
    os.close(terminal)
    assert process.wait(30) == 7


NESTED_LISTS = """
from rlzoo import signals
from rlzoo.config import ModelConfig
from rlzoo.model import tokenizer
loaded = tokenizer.load_tokenizer(ModelConfig(name="embedded:calculator"))
loaded.backend.chat_template = (
    "{% set lists = namespace(a=[], b=[]) %}{% for _ in range(45) %}{% set lists.a = [lists.a, lists.a] %}"
    "{% set lists.b = [lists.b, lists.b] %}{% endfor %}{{ lists.a == lists.b }}"
)
tokenizer.TEMPLATE_SECONDS = 0.1
signals.LONGEST_OPERATION = 1.0
loaded.encode([{"role": "user", "content": "2*3="}])
"""


@pytest.mark.slow
def test_a_template_that_hears_no_signal_ends_the_command_with_a_line() -> None:
    done = subprocess.run([sys.executable, "-c", NESTED_LISTS], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("rlzoo: error: model.chat_template=auto: the chat template of ")
    assert done.stderr.count("\n") == 1 and "takes more than 0.1 s" in done.stderr
