"""The command line as a whole: a file for each command, and light enough for the processes that import it."""

import subprocess
import sys
from pathlib import Path

import pytest

import rlzoo.commands
from rlzoo.commands import COMMANDS, main

LOADED = "import sys, rlzoo.commands as it; it._parser(); print(*{'torch', 'transformers', 'rich'} & {*sys.modules})"


def test_grader_processes_import_what_was_started_without_torch() -> None:
    assert subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True).stdout == "\n"


def test_every_command_is_the_file_of_its_name() -> None:
    files = {path.stem for path in Path(rlzoo.commands.__path__[0]).glob("*.py")} - {"__init__", "key_table"}
    assert files == COMMANDS.keys()


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


def test_an_interrupted_command_says_what_remains(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(COMMANDS["train"], "run", interrupt)
    assert main(["train"]) == 130
    assert "resume=true goes on from the last checkpoint" in capsys.readouterr().err
