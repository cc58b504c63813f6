"""What a stranger has damaged, or made endless, greedy or hostile to terminals, ends no command but in a line."""

# ruff: noqa: F811

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rlzoo.commands import main
from rlzoo.files import read_json_lines, write_json, write_json_lines
from rlzoo.model.pretrained import write_manifest
from tests.report.test_push import Hub, hub  # noqa: F401
from tests.test_stranger import WORDS, clean, marker, records, run, say  # noqa: F401
from tests.thinned import thinned

ESC = "\x1b[31mred\x07\u202eturned"
BOMB = "{% set n = messages | length * 1500000000 %}{{ 'a' * n }}"


def damaged(run: Path, name: str, spoil: Callable[[Path], object]) -> Path:
    """A copy of the run beside it, one of whose files is spoilt."""
    copy = Path(shutil.copytree(run, run.parent / name))
    say(copy, "seed", "1")  # so that both are rows of one board
    spoil(copy)
    return copy


def in_checkpoint(change: Callable[[Path], object]) -> Callable[[Path], object]:
    """What is done to its checkpoint, and to the list of its files."""

    def spoil(run: Path) -> None:
        (checkpoint,) = (run / "checkpoints").iterdir()
        change(checkpoint)
        write_manifest(checkpoint, 1)

    return spoil


def flip(path: Path) -> None:
    """Turns a bit."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def deep(path: Path) -> None:
    """JSON without end."""
    path.write_text("[" * 100_000)


def shown(run: Path) -> None:
    """What steers a terminal or is a formula, wherever a text of the run is shown."""
    lines = read_json_lines(records(run))
    for line in lines:
        line["response"], line["problem"], line["correct"] = f"={ESC}", f"=1+1{ESC}", 1.0 - line["correct"]
    write_json_lines(records(run), lines)
    described = json.loads((run / "objective.json").read_text())
    write_json(run / "objective.json", {**described, "expression": f"=grpo{ESC}"})


def partial(run: Path) -> None:
    """What killed processes would have left, with names that lead out."""
    for name in ("..a.rlzoo-partial", ".linked.a.rlzoo-partial"):
        (run / name).touch()
    (run / ".linked.a.old").symlink_to(run.parent.parent)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "reward"')


FURTHER: dict[str, Callable[[Path], object]] = {
    "flipped": lambda run: flip(next((run / "checkpoints").iterdir()) / "model.safetensors"),
    "unlisted": in_checkpoint(lambda it: (it / "config.json").unlink()),
    "bomb": in_checkpoint(lambda it: (it / "chat_template.jinja").write_text(BOMB)),
    "deep-metrics": lambda run: deep(run / "metrics.jsonl"),
    "deep-objective": lambda run: deep(run / "objective.json"),
    "pipe": lambda run: ((run / "metrics.jsonl").unlink(), os.mkfifo(run / "metrics.jsonl")),
    "deep-config": lambda run: (run / "config.yaml").write_text("task: " + "[" * 20_000),
    "shown": shown,
    "partial": partial,
}
"""What is damaged, endless, greedy, or meant for a terminal."""


@pytest.mark.parametrize("name", thinned(list(FURTHER), fast=0, slow=3))
def test_no_command_ends_in_anything_but_a_line_with_what_a_stranger_has_damaged(
    name: str,
    run: Path,
    marker: Path,
    clean: Path,
    hub: Hub,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bad = damaged(run, f"arithmetic-grpo-{name}", FURTHER[name])
    checkpoint = bad / "checkpoints" / "step-000001"
    statuses = {
        words[0]: main([*words])
        for words in (
            ["leaderboard", str(clean), str(bad), "output=board"],
            ["eval", str(bad)],
            ["inspect", str(bad)],
            ["grade", "regrade=true", str(records(bad))],
            ["grade", str(records(bad)), "output=graded.jsonl"],
            ["doctor", str(bad)],
            ["push", str(bad), "someone/model"],
            ["fit", str(bad / "config.yaml")],
            ["task", f"model.name={checkpoint}", "task.problems=50"],
            ["train", *WORDS, "objective=grpo", "output=runs/{task}-{objective}-{seed}"],
        )
    }
    told = capsys.readouterr()
    assert not marker.exists() and "Traceback" not in told.err
    assert all(status in (0, 1, 2) for status in statuses.values()) and statuses["train"] == 0, told.err
    assert not {"\x1b", "\x07", "\u202e"} & {*told.out, *told.err}
    board = Path("board/leaderboard.csv")
    assert not board.exists() or not re.search(r'(^|,)"?=', board.read_text(), re.MULTILINE)
    refusing = {"flipped": "push", "unlisted": "eval", "bomb": "eval", "deep-config": "fit", "pipe": "doctor"}
    assert name not in refusing or statuses[refusing[name]] == 2
