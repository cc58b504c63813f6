r"""What others wrote is data until it is shown, and text when it is: no nesting and no ESC of theirs goes further."""

import io
import logging
import math
import os
import re
from pathlib import Path

import pytest
from rich.text import Text

import rlzoo
from rlzoo.commands import main
from rlzoo.errors import PlainFormatter, printable
from rlzoo.files import read_json_lines, write_json_lines
from rlzoo.report.table import PlainConsole
from tests.comparing.finished_runs import make_run
from tests.conftest import error_of

DEEP = 100_000
STEERING = "\x1b[31mred\x07\u202eturned\r"


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("command", ["grade", "regrade", "task"])
def test_json_that_is_nested_too_deep_is_one_line(
    command: str, opening: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, closing = tmp_path / "deep.jsonl", "]" if opening == "[" else "}"
    file.write_text(f'{{"question": "?", "gold": "1", "response": "1", "answer": {opening * DEEP}1{closing * DEEP}}}\n')
    words = {"grade": (file, f"output={tmp_path / 'out'}"), "task": (f"task.name={file}",)}
    words["regrade"] = ("regrade=true", file)
    assert f"{file}" in error_of(capsys, command.removeprefix("re"), *words[command])


def test_yaml_that_is_nested_too_deep_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "deep.yaml"
    laughs = "\n".join(["a0: &a0 [x]", *(f"a{i + 1}: &a{i + 1} [*a{i}, *a{i}, *a{i}, *a{i}]" for i in range(20))])
    nested = (f"task: {'[' * 20_000}{']' * 20_000}", '{"a":' * 100_000, "- " * 50_000)
    for text in (*nested, "".join(" " * depth + "a:\n" for depth in range(2000)), laughs):
        file.write_text(text)
        assert "is not readable" in error_of(capsys, "objectives", "--from", "trl", file)
        assert f"'{file}' is not readable" in error_of(capsys, "train", file)
    assert "is not readable" in error_of(capsys, "train", f"task.options={'[' * 20_000}{']' * 20_000}")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"entropy": "x"}, "metrics.jsonl is damaged: line 2 has entropy='x', which is not a number"),
        ({"entropy": 10**400}, "which is not a number"),
        ({"entropy": -1e308}, "which is not a number up to 1e100"),
        ({"step": -1}, "which is not a whole number from 0"),
        ({"entropy": None}, "which is not a number"),
    ],
)
def test_a_value_of_another_kind_is_named(
    change: dict[str, object], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run")
    lines = read_json_lines(run / "metrics.jsonl")
    lines[1] |= change
    write_json_lines(run / "metrics.jsonl", lines)
    assert says in error_of(capsys, "leaderboard", run, f"output={tmp_path / 'board'}")


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e100, 5e-324])
def test_a_leaderboard_of_metrics_that_are_extreme_is_drawn(value: float, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    lines = read_json_lines(run / "metrics.jsonl")
    touched = {f"touched/stapo/{measure}": value for measure in ("tokens", "mass")}
    write_json_lines(
        run / "metrics.jsonl", [{**dict.fromkeys(line, value), **touched, "step": line["step"]} for line in lines]
    )
    assert main(["leaderboard", str(run), f"output={tmp_path / 'board'}"]) == 0


@pytest.mark.parametrize("name", ["finished.json", "environment.json", "objective.json"])
@pytest.mark.parametrize("text", ["", "[", "5", "[" * 100_000, '{"step": "', "\udcff"])
def test_json_that_is_not_what_a_run_writes_is_one_line(
    name: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run")
    (run / name).write_bytes(text.encode(errors="surrogateescape"))
    assert f"{run / name} is not readable" in error_of(capsys, "leaderboard", run, f"output={tmp_path / 'board'}")


@pytest.mark.parametrize("name", ["metrics.jsonl", "objective.json", "config.yaml"])
def test_a_pipe_in_place_of_a_file_of_a_run_is_not_waited_for(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run")
    (run / name).unlink()
    os.mkfifo(run / name)
    assert str(run) in error_of(capsys, "leaderboard", run, f"output={tmp_path / 'board'}")


def test_a_mistake_is_a_line_of_bounded_length_and_half_a_character_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(error_of(capsys, "fit", f"train.steps={'9' * 5000}x")) < 1300
    assert "train.steps" in error_of(capsys, "fit", "train.steps=\ud800")
    assert "model.name" in error_of(capsys, "fit", "model.name=\ud800")
    assert main(["train", f"objective=grpo+{STEERING}", "show=config"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_every_table_is_written_by_what_writes_no_formula() -> None:
    """Whoever writes CSV by other means would have to be tested as it is."""
    sources = Path(rlzoo.__file__).parent.rglob("*.py")
    writers = {it.name for it in sources if re.search(r"csv\.(Dict)?[wW]riter|to_csv", it.read_text())}
    assert writers == {"table.py", "claims.py"}  # what claims.py writes is declared in this repository


def test_what_would_steer_a_terminal_is_shown_and_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    shown = r"\u001b[31mred\u0007\u202eturned\u000d"
    assert printable(STEERING) == shown
    console = PlainConsole(file=io.StringIO(), width=200, force_terminal=True)
    console.print(Text(STEERING, style="bold"), STEERING)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1b[31m" not in said and "\u202e" not in said and "\x07" not in said and "red" in said
    assert "\x1b[1m" in said, "the styles of the terminal's own stay"
    record = logging.makeLogRecord({"msg": "a reward raised %s", "args": (STEERING,)})
    assert PlainFormatter().format(record) == f"a reward raised {shown}"
    assert main(["train", f"objective={STEERING}"]) == 2
    assert "\x1b" not in (err := capsys.readouterr().err) and "\u202e" not in err
