"""Edited code never goes on with runs of what it was, nor is mixed with them: the guide's table, case by case."""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import pytest
from rich.console import Console

from objectives import parse
from objectives.zoo import PARTS, RECIPES
from rlzoo.commands import main
from rlzoo.comparing import grid as grid_module
from rlzoo.comparing.compare import compare
from rlzoo.comparing.finished_runs import read_runs
from rlzoo.comparing.grid import Grid, read_grid
from rlzoo.comparing.launchers import Job
from rlzoo.comparing.leaderboard import make_leaderboard
from rlzoo.errors import UserError
from rlzoo.experiment import claim as claim_module
from rlzoo.experiment.claim import claim
from rlzoo.experiment.identity import read_objective
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.lab.suite.cells import objective_key
from rlzoo.report.grid_view import GridView
from tests.comparing.finished_runs import SCHEDULE, make_run
from tests.conftest import error_of

GUIDE = (Path(__file__).parents[2] / "docs/guides/own_method.md").read_text(encoding="utf-8")
COLUMNS = ("train", "resume", "compare", "leaderboard", "eval")
ROWS = re.findall(r"^\| an? (\w+) \|(.*)\|$", GUIDE, re.MULTILINE)
TABLE = {edited: dict(zip(COLUMNS, map(str.strip, cells.split("|")), strict=True)) for edited, cells in ROWS}
"""What is edited -> command -> what happens, as the guide says it."""

FILES = {
    "mine.py": """
from dataclasses import dataclass
from objectives import Mask, parameter, parse, recipe, register
from bounds import bound

@register
@dataclass(frozen=True)
class Sparo(Mask):
    name = "sparo"
    reads = frozenset({"logp"})
    limit: float = parameter(0.9, "(0, 1)", "probability above which a token is left out")

    def keeps(self, batch):
        return batch.logp.exp() <= bound(self.limit)

RECIPES = {"paper": (*parse("grpo").parts, Sparo(limit=0.7))}
recipe("sparo_grpo", paper="", summary="Sparo", variants=RECIPES, contribution=("sparo",))
""",
    "bounds.py": "def bound(limit):\n    return limit\n",
    "rewards.py": "def right(response, gold):\n    return float(gold in response)\n",
    "problems.py": """
from rlzoo.tasks.arithmetic import Arithmetic

class Sums(Arithmetic):
    prefix = "easy"
""",
}
EDITS = {
    "part": ("bounds.py", "return limit", "return 1 - limit"),
    "recipe": ("mine.py", "limit=0.7", "limit=0.6"),
    "reward": ("rewards.py", "gold in response", "gold == response"),
    "task": ("problems.py", "easy", "hard"),
}
"""What is edited -> file, text, its replacement."""
WORDS = {
    "part": ("grpo+mine:sparo",),
    "recipe": ("mine:sparo_grpo",),
    "reward": ("grpo", "task.reward=rewards:right"),
    "task": ("grpo", "task.name=problems:Sums"),
}
"""What a run of it is asked for with."""
SIZES = (
    *("train.steps=5", "rollout.prompts_per_step=2", "rollout.responses_per_prompt=4", "task.problems=50"),
    *("evaluation.problems=12", "evaluation.samples=4", "evaluation.decodings=[1/1,0.7/0.9]"),
)


def forget() -> None:
    """What a new process would not have imported."""
    for name in ("mine", "bounds", "rewards", "problems"):
        sys.modules.pop(name, None)
    PARTS.pop("sparo", None)
    RECIPES.pop("sparo_grpo", None)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory of a user, with own code in it."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    forget()
    yield tmp_path
    forget()


def edit(edited: str, back: bool = False) -> None:
    """Edits a file, or takes that back."""
    name, old, new = EDITS[edited]
    assert old in FILES[name]
    Path(name).write_text(FILES[name] if back else FILES[name].replace(old, new))
    forget()


def trained(path: Path | str, edited: str, seed: int = 0, expression: str = "") -> RunFolder:
    """A finished run as training leaves it, without its weights."""
    objective, *settings = WORDS[edited]
    run = RunFolder(make_run(Path(path), expression or objective, seed, 0.5, *SIZES, *settings))
    run.objective.unlink()
    for name in ("evaluation", "metrics.jsonl"):  # a run is claimed before these are there
        (run / name).rename(run / f".{name}")
    claim(run, replace(run.read_config(), resume=True)).close()
    for name in ("evaluation", "metrics.jsonl"):
        (run / f".{name}").rename(run / name)
    return run


def typed(edited: str, *words: str) -> list[str]:
    """What is typed after `rlzoo train`."""
    objective, *settings = WORDS[edited]
    return [f"objective={objective}", *settings, *SIZES, *words]


def changed(edited: str) -> str:
    """How a command calls what was edited."""
    return {
        "part": "the code of mine:sparo (bounds.py)",
        "recipe": "objective=mine:sparo_grpo has mine:sparo(limit=0.6)",
        "reward": "the code of rewards:right (rewards.py)",
        "task": "the code of problems:Sums (problems.py)",
    }[edited]


# ---- the table -------------------------------------------------------------------------------------------------------


def test_the_guide_s_table_has_all_twenty_cases() -> None:
    assert set(TABLE) == set(EDITS) and sum(map(len, TABLE.values())) == 20


@pytest.mark.slow
@pytest.mark.parametrize("edited", EDITS)
@pytest.mark.parametrize("column", ["train", "resume"])
def test_a_run_s_folder_takes_no_steps_of_other_code(
    edited: str, column: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert TABLE[edited][column] == "refused"
    run = trained("run", edited)
    kept = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file() and path.name != ".lock"}
    edit(edited)
    further = [SCHEDULE, *(["resume=true"] if column == "resume" else [])]
    line = error_of(capsys, "train", *typed(edited, "output=run", *further))
    assert changed(edited) in line and line.endswith("another output= starts afresh")
    assert all(path.read_bytes() == content for path, content in kept.items())


@pytest.mark.slow
@pytest.mark.parametrize("edited", ["part", "recipe", "reward", pytest.param("task", marks=pytest.mark.slow)])
def test_a_grid_trains_anew_what_was_edited_and_takes_it_up_again_when_that_is_taken_back(
    edited: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert TABLE[edited]["compare"] == f"{'this' if edited in ('part', 'recipe') else 'every'} row is trained again"
    words = [*dict.fromkeys(["grpo", *WORDS[edited]]), *SIZES, "output=grid"]

    def folders(*seeds: int) -> dict[str, str]:
        forget()
        grid, _ = read_grid([*words, f"seeds={','.join(map(str, seeds))}"])
        grid.folder.mkdir(exist_ok=True)
        grid.save()
        for cell in grid.cells:
            if not cell.folder.path.exists():
                trained(cell.folder.path, edited, cell.seed, cell.entry.expression)
        return {f"{cell.entry.asked} {cell.seed}": cell.folder.path.name for cell in grid.cells}

    first = folders(0)
    assert folders(0) == first and not caplog.records
    edit(edited)
    second = folders(0, 1)
    anew = {name for name in first if second[name] != first[name]}
    assert anew == ({f"{WORDS[edited][0]} 0"} if edited in ("part", "recipe") else set(first))
    assert all(Path("grid", name).is_dir() for name in first.values()) and "is trained again" in caplog.text
    runs, _, notes = read_runs(["grid"])
    assert len({(run.identity, str(run.objective.code)) for run in runs}) == len(anew | {"grpo 0"})
    assert any("with earlier code" in note for note in notes)
    edit(edited, back=True)
    assert {name: folders(0, 1)[name] for name in first} == first
    edit(edited)
    assert folders(0, 1) == second


@pytest.mark.parametrize("edited", EDITS)
def test_a_board_averages_no_two_versions_and_imports_neither(edited: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = trained("before", edited)
    edit(edited)
    after = trained("after", edited, seed=1)
    forget()
    for name in FILES:
        Path(name).unlink()
    if edited == "recipe":
        assert TABLE[edited]["leaderboard"] == "two rows"
        rows = make_leaderboard(*read_runs([str(before.path), str(after.path)])[:2]).rows
        assert [row.seeds for row in rows] in ([(0,), (1,)], [(1,), (0,)])
        return
    assert TABLE[edited]["leaderboard"] == "refused"
    line = error_of(capsys, "leaderboard", before.path, after.path, "output=board")
    assert f"before and after cannot be compared: {changed(edited)} is not the same in both; leave one" in line
    assert not {"mine", "rewards", "problems"} & set(sys.modules)


@pytest.mark.slow
def test_an_evaluation_says_that_what_grades_was_edited(
    folder: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["objective=mine:sparo_grpo", "task.reward=rewards:right", "task.name=problems:Sums", *SIZES]
    assert main(["train", *words, "output=run", "train.steps=1", "evaluation.problems=4"]) == 0
    for edited in EDITS:
        edit(edited)
        caplog.clear()
        assert main(["eval", "run", "trust=run", "output=run/evaluation/" + edited]) == 0
        says = f"{changed(edited)} has changed since the run in run was trained; it is evaluated as it is now"
        assert TABLE[edited]["eval"] == ("as before" if edited in ("part", "recipe") else "it says so")
        assert [record.getMessage() for record in caplog.records] == [says] * (TABLE[edited]["eval"] == "it says so")
        edit(edited, back=True)
    edit("part")
    caplog.clear()
    assert main(["inspect", "run", "trust=run"]) == 0
    assert f"{changed('part')} has changed since the run in run was trained; it is shown as it is now" in caplog.text


# ---- beside the table ------------------------------------------------------------------------------------------------


def test_a_run_keeps_the_source_to_be_read() -> None:
    run = trained("run", "part")
    assert {path.name: path.read_text() for path in run.source.iterdir()} == {
        name: FILES[name] for name in ("mine.py", "bounds.py")
    }
    edit("part")
    with pytest.raises(UserError, match=r"run/source has what it was"):
        claim(run, replace(run.read_config(), resume=True))


def test_before_its_first_step_a_run_takes_an_edited_part_and_no_edited_reward() -> None:
    for edited in ("part", "reward"):
        run = trained(edited, edited)
        run.metrics.unlink()
        edit(edited)
        config = replace(run.read_config(), resume=True)
        if edited == "part":
            before = read_objective(run.path).code
            claim(run, config).close()
            assert read_objective(run.path).code != before
        else:
            with pytest.raises(UserError, match=r"the code of rewards:right"):
                claim(run, config)


def without_code(run: RunFolder) -> None:
    """As versions of rlzoo left it that recorded no digest."""
    described = json.loads(run.objective.read_text())
    del described["code"]
    run.objective.write_text(json.dumps(described))


def test_a_run_without_digests_is_read_with_a_word_about_it(caplog: pytest.LogCaptureFixture) -> None:
    run = trained("run", "part")
    without_code(run)
    edit("part")
    board = make_leaderboard(read_runs(["run", str(trained("other", "part", seed=1).path)])[0])
    assert board.notes == ["Which version of the code of run it was is not recorded."]
    claim(run, replace(run.read_config(), resume=True)).close()
    assert "run does not say in a way that can be compared which code of mine:sparo its steps are of" in caplog.text
    assert read_objective(run.path).code is not None


def test_a_grid_without_digests_goes_on_with_a_word_about_it(caplog: pytest.LogCaptureFixture) -> None:
    words = [*WORDS["part"], *SIZES, "output=grid", "seeds=0"]
    grid, _ = read_grid(words)
    cell = grid.cells[0]
    without_code(trained(cell.folder.path, "part"))
    replace(grid, objectives=tuple(replace(entry, code=None) for entry in grid.objectives)).save()
    again, _ = read_grid(words)
    assert [it.folder for it in again.cells] == [cell.folder] and "it counts as that of today" in caplog.text
    saved = json.loads(Path("grid/grid.json").read_text())
    del saved["earlier"], saved["objectives"][0]["code"]
    Path("grid/grid.json").write_text(json.dumps(saved))
    assert Grid.load(Path("grid")).objectives[0].code is None


def test_a_run_goes_on_with_another_version_of_rlzoo_and_a_leaderboard_names_the_rows_of_several(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def version(text: str) -> None:
        monkeypatch.setattr(claim_module, "our_version", lambda: text)

    def run_of(path: str, seed: int) -> RunFolder:
        run = RunFolder(make_run(Path(path), "stapo", seed, 0.5))
        run.objective.unlink()
        claim(run, replace(run.read_config(), resume=True)).close()
        return run

    def notes(*runs: RunFolder) -> list[str]:
        return make_leaderboard(read_runs([str(run.path) for run in runs])[0]).notes

    version("0.1.0 aaaa")
    first, second = run_of("first", 0), run_of("second", 1)
    assert notes(first, second) == [] and "goes on" not in caplog.text
    version("0.1.0 bbbb")
    claim(first, replace(first.read_config(), resume=True)).close()
    assert "the run in first is of rlzoo 0.1.0 aaaa and goes on with 0.1.0 bbbb; its objective" in caplog.text
    assert read_objective(first.path).versions == ("0.1.0 aaaa", "0.1.0 bbbb")
    (note,) = notes(first, second)
    assert "stapo averages runs of different versions" in note
    assert "0.1.0 aaaa, then 0.1.0 bbbb (seeds 0); 0.1.0 aaaa (seeds 1)" in note
    other = RunFolder(make_run(Path("other"), "grpo", 1, 0.5))
    assert notes(second, other) == ["Rows are of different versions of rlzoo: 0.1.0 aaaa (stapo); 0123abc (grpo)."]


def test_a_grid_that_goes_on_with_another_version_of_rlzoo_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    words = ["grpo", *SIZES, "output=grid", "seeds=0,1"]
    grid, _ = read_grid(words)
    grid.folder.mkdir()
    grid.save()
    run = RunFolder(make_run(grid.cells[0].folder.path, "grpo", 0, 0.5, *SIZES))
    monkeypatch.setattr(claim_module, "our_version", lambda: "0.1.0 aaaa")
    run.objective.unlink()
    claim(run, replace(run.read_config(), resume=True)).close()
    monkeypatch.setattr(grid_module, "our_version", lambda: "0.1.0 bbbb")
    again, _ = read_grid(words)
    assert [cell.folder for cell in again.cells] == [cell.folder for cell in grid.cells]
    assert "are of rlzoo 0.1.0 aaaa, and those trained now of 0.1.0 bbbb" in caplog.text


def test_the_suite_knows_a_cell_of_an_edited_part_from_one_of_what_it_was() -> None:
    before = objective_key(parse("grpo+mine:sparo"))
    edit("part")
    assert objective_key(parse("grpo+mine:sparo")) != before
    edit("part", back=True)
    assert objective_key(parse("grpo+mine:sparo")) == before
    assert objective_key(parse("stapo")) == parse("stapo").key


def test_what_is_recorded_is_compared_and_never_imported(folder: Path) -> None:
    run = trained("run", "part")
    forget()
    described = json.loads(run.objective.read_text())
    described["code"]["parts"]["stranger:part"] = {"stranger.py": "0"}
    run.objective.write_text(json.dumps(described))
    (folder / "stranger.py").write_text("raise SystemExit('imported')")
    make_leaderboard(read_runs(["run"])[0])
    assert not {"stranger", "mine"} & set(sys.modules)


@pytest.mark.slow
def test_an_edit_while_a_grid_is_trained_ends_what_has_not_begun() -> None:
    grid, _ = read_grid([*WORDS["part"], *SIZES, "output=grid", "seeds=0,1"])

    @dataclass(frozen=True)
    class Ended:
        def poll(self) -> int:
            return 0

        def cancel(self) -> None: ...

        def kill(self) -> None: ...

    class Editing:
        """Trains, and edits a file while it does."""

        def start(self, words: Sequence[str], log: Path, slot: int, lock: IO[str]) -> Job:
            trained(grid.cells[0].folder.path, "part", grid.cells[0].seed)
            edit("part")
            return Ended()

    failures = compare(grid, 1, GridView(Console(quiet=True)), Editing())
    assert [(failure.cell.seed, failure.message) for failure in failures] == [
        (1, "its code was edited while others were trained")
    ]
