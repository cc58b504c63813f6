"""The command line as a whole: a file for each command, and light enough for the processes that import it."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import rlzoo.commands
from objectives.version import VERSION
from rlzoo.commands import COMMANDS, Laboratory, main
from tests.conftest import error_of
from tests.thinned import thinned

CACHED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
LOADED = "import sys, rlzoo.commands as it; it._parser(); print(*{'torch', 'transformers', 'rich'} & {*sys.modules})"


def test_grader_processes_import_what_was_started_without_torch() -> None:
    assert subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True).stdout == "\n"


def test_every_command_is_the_file_of_its_name() -> None:
    files = {path.stem for path in Path(rlzoo.commands.__path__[0]).glob("*.py")} - {"__init__", "key_table"}
    of_the_laboratory = {name for name, command in COMMANDS.items() if isinstance(command, Laboratory)}
    assert files == COMMANDS.keys() - of_the_laboratory and of_the_laboratory == {"map", "suite", "warmup"}


WRONG = [
    "objective=grpo",
    "trian",
    "train grpo",
    "train --steps 2",
    "train train.stepz=1",
    "train train.steps=0",
    "train missing.yaml",
    "train objective=stapoo",
    "train objective=grpo+STAPO",
    "objectives dapo-sotf_overlong",
    "objectives s2t(tau=1)",
    "objectives dapo+group_centre",
    "train objective=stapo(tau_p=2)",
    "compare grpo stapo(tau_p=[0.1,2])",
    "compare grpo stapoo",
    "train model.name=./nowhere",
    "train task.name=./nowhere.jsonl",
    "train task.name=aritmetic",
    "train log.trackers=comet_ml",
    "train task.reward=./nowhere.py:reward",
    "train task.name=./nowhere.py:MyTask",
    "task task.nmae=arithmetic",
    "task task.reward=./nowhere.py:reward",
    "eval",
    "eval ./nowhere",
    "eval embedded:sums train.steps=3",
    "eval embedded:sums benchmarks=aime2024",
    "compare grpo train.stepz=1",
    "compare grpo --ablate stapo train.stepz=1",
    "compare grpo seeds=1,1",
    "leaderboard titel=x",
    "inspect run stp=1",
    "grade regrade=true file.jsonl ouput=1",
    "fit objective=grppo",
    "inspect nowhere",
    "push nowhere a/b",
    "train task.name=foo",
    "grade regrade=true g=5/nowhere.jsonl ouput=1",
    "warmup stepz=1",
    "completion bash",
]
WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # whoever imports it gets an error
from rlzoo.commands import main
for line in sys.stdin:
    print(main(line.split()))
"""


@pytest.mark.slow
def test_a_wrong_word_imports_no_torch(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_TORCH]
    done = subprocess.run(command, cwd=tmp_path, input="\n".join(WRONG), capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2"] * len(WRONG)
    for words, line in zip(WRONG, done.stderr.splitlines(), strict=True):
        assert line.startswith("rlzoo: error: "), words


@pytest.mark.slow
def test_the_zoo_is_shown_and_memory_predicted_without_torch() -> None:
    lines = ["objectives", "objectives stapo+clip_higher", "objectives stapo grpo", "objectives --search clip", "fit"]
    command = [sys.executable, "-c", WITHOUT_TORCH]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True)
    assert not done.stderr
    assert done.stdout.count("\n0\n") == len(lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    thinned(
        [["--help"], ["--version"], ["train", "train.stepz=1"], ["train", "objective=stapoo"], ["compare", "seeds=a"]],
        fast=2,
    ),
)
def test_help_and_a_wrong_word_take_about_a_second_at_most(words: list[str]) -> None:
    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "rlzoo", *words], env=CACHED, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(5)) < 1.5


@pytest.mark.parametrize("words", [[], ["help"], ["--help"], ["help", "eval"], ["--version"]])
def test_asking_for_help_is_no_mistake(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    assert ("rlzoo " + VERSION if words == ["--version"] else "usage: rlzoo") in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["train", "--steps", "2"], "train.steps=2"),
        (["train", "seed=1", "--learning-rate=1e-4"], "train.learning_rate=1e-4"),
        (["train", "--train.steps", "2"], "train.steps=2"),
        (["train", "--frobnicate"], "rlzoo train --help"),
        (["trian"], "did you mean train"),
        (["objective=grpo"], "did you mean rlzoo train objective=grpo"),
    ],
)
def test_a_habit_of_other_trainers_is_answered_with_what_to_write(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in error_of(capsys, *words)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_what_a_command_does_and_every_key_has_a_meaning(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    text = capsys.readouterr().out
    assert COMMANDS[command].SUMMARY[1:] in " ".join(text.split())
    lines = text.partition("keys, with their defaults")[2].splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith("  ") and line[2] != " "]
    assert all(lines[i + 1].startswith("      ") for i in starts)
    assert not any("   " in line.strip() for line in lines)


def test_an_interrupted_command_says_what_remains(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(COMMANDS["compare"], "run", interrupt)
    assert main(["compare"]) == 130
    assert "the same command goes on where it stopped" in capsys.readouterr().err
