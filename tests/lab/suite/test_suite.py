"""An experiment from outside is trained, kept line by line, and gone on with; its numbers are the same every time."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rlzoo
from rlzoo import UserError
from rlzoo.commands import main
from rlzoo.lab.suite.cells import Cell, CellFile, Seeds, planned
from rlzoo.lab.suite.suite import SuiteTable
from rlzoo.lab.suite.verdicts import ControlFailure

SOURCE = Path(__file__).with_name("outside.py")
Lines = list[dict[str, Any]]


def lines(output: Path) -> Lines:
    return [json.loads(line) for line in (output / "cells.jsonl").read_text().splitlines()]


def without_seconds(of: Lines) -> Lines:
    return [{name: value for name, value in line.items() if name != "seconds"} for line in of]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `rlzoo suite dapo experiments=my_file.py:EXPERIMENT seeds=2` leaves."""
    folder = tmp_path_factory.mktemp("suite")
    shutil.copy(SOURCE, folder / "my_file.py")
    words = ["dapo-dynamic_sampling", f"experiments={folder / 'my_file.py'}:EXPERIMENT", "seeds=2"]
    assert main(["suite", *words, f"output={folder / 'out'}"]) == 0
    return folder


@pytest.fixture
def copy(trained: Path, tmp_path: Path) -> Path:
    """The same, to be changed."""
    return Path(shutil.copytree(trained, tmp_path / "copy"))


def again(folder: Path, objectives: tuple[str, ...] = ("dapo-dynamic_sampling",), **keys: Any) -> SuiteTable:
    keys = {"experiments": [f"{folder / 'my_file.py'}:EXPERIMENT"], "seeds": 2, "output": folder / "out", **keys}
    return rlzoo.run_suite(list(objectives), progress=False, **keys)


def test_an_experiment_from_outside_has_its_cells_and_its_claims(trained: Path) -> None:
    found = lines(trained / "out")
    asked = {(line["arm"], line["seed"]) for line in found}
    assert asked == {(arm, seed) for arm in ("base", "idle", "dapo-dynamic_sampling") for seed in (1100, 1101)}
    assert all(set(line["scores"]) == {"right", "length"} and 0 < line["seconds"] < 60 for line in found)
    mean = sum(line["scores"]["right"] for line in found if line["arm"] == "idle") / 2
    assert f"| idle | `grpo-kl` | {mean:.3g} | 2 |" in (trained / "out" / "suite.md").read_text()
    (claim,) = json.loads((trained / "out" / "claims.json").read_text())["claims"]
    assert claim["claim"] == "Who does not learn knows less." and claim["seeds"] == 2
    assert claim["verdict"] in ("holds", "does not hold", "cannot tell", "does not fire", "void")
    assert "### coin" in (trained / "out" / "suite.md").read_text()


@pytest.mark.slow
def test_what_is_done_is_not_done_again_and_the_same_cell_has_the_same_numbers(copy: Path) -> None:
    before = lines(copy / "out")
    again(copy)
    assert lines(copy / "out") == before
    (copy / "out" / "cells.jsonl").unlink()
    again(copy)
    assert without_seconds(lines(copy / "out")) == without_seconds(before)


def test_a_line_that_a_kill_cut_short_costs_that_cell_alone(copy: Path) -> None:
    file, before = copy / "out" / "cells.jsonl", lines(copy / "out")
    file.write_text(file.read_text()[:-20])
    again(copy)
    after = lines(copy / "out")
    assert after[:-1] == before[:-1] and without_seconds(after) == without_seconds(before)


def changed(old: str, new: str) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    return change


def plan(folder: Path, *objectives: str, base_against_base: bool = False) -> list[Cell]:
    return list(planned([f"{folder / 'my_file.py'}:EXPERIMENT"], objectives, Seeds(1), base_against_base).cells)


@pytest.mark.parametrize(
    ("change", "others"),
    [
        (changed('{"train.learning_rate": 0.0}', '{"train.learning_rate": 1e-9}'), 3),
        (changed("Start(steps=15)", "Start(steps=16)"), 3),
    ],
    ids=["arm", "start"],
)
def test_cells_are_others_where_what_they_are_made_of_is(
    copy: Path, change: Callable[[Path], None], others: int
) -> None:
    before = {cell.identity for cell in plan(copy, "dapo")}
    change(copy / "my_file.py")
    assert len({cell.identity for cell in plan(copy, "dapo")} - before) == others


def test_old_cells_of_a_changed_experiment_are_not_mixed_in(copy: Path) -> None:
    changed('RIGHT = "y"', 'RIGHT = "n"')(copy / "my_file.py")
    records = again(copy, (), seeds=[1100, 1102]).experiments[0].results.arms["base"].records
    done = [line for line in lines(copy / "out")[6:] if line["arm"] == "base"]
    assert {seed: record.scores for seed, record in records.items()} == {line["seed"]: line["scores"] for line in done}
    assert sorted(records) == [1100, 1102]


def test_a_mended_design_has_other_registered_seeds_and_cells_of_earlier_ones_do_not_count(copy: Path) -> None:
    changed("Start(steps=15),", "Start(steps=15),\n    first_seed=1102,")(copy / "my_file.py")
    assert sorted({cell.seed for cell in plan(copy)}) == [1102]
    records = again(copy, (), seeds=1).experiments[0].results.arms["base"].records
    assert sorted(records) == [1102] and {line["seed"] for line in lines(copy / "out")} == {1100, 1101, 1102}


def test_base_against_itself_has_forty_seeds_of_its_own_and_the_same_objective_one_cell(copy: Path) -> None:
    cells = plan(copy, "grpo-kl", "grpo+kl-kl", "dapo", base_against_base=True)
    assert sorted(cell.seed for cell in cells if cell.label == "base") == [1100, *range(2000, 2040)]
    assert [cell.label for cell in cells if cell.label != "base"] == ["idle", "dapo"]


def test_a_cell_that_fails_is_a_line_and_the_others_go_on(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed(
        '"right": float',
        '"right": 1 / (cell.trainer.config.seed - 1101) if cell.trainer.config.seed == 1101 else float',
    )(copy / "my_file.py")
    words = [f"experiments={copy / 'my_file.py'}:EXPERIMENT", "seeds=2", f"output={copy / 'new'}"]
    assert main(["suite", *words]) == 1
    said = capsys.readouterr().out
    assert said.count("failed      coin, ") == 2 and "ZeroDivisionError" in said and "Traceback" not in said
    assert {line["seed"] for line in lines(copy / "new")} == {1100}


@pytest.mark.slow
def test_an_objective_with_the_name_of_an_arm_takes_nothing_from_that_arm(copy: Path) -> None:
    before = again(copy).experiments[0].claims[0].compared.difference
    changed('"idle"', '"dapo"')(copy / "my_file.py")
    again(copy, ())
    found = again(copy, ("dapo", "rloo"))
    (results,) = [it.results for it in found.experiments]
    assert before is not None and found.experiments[0].claims[0].compared.difference == before
    assert results.arms["dapo"].arm.objective == "grpo-kl"
    assert results.others.items() >= {"dapo": "dapo as typed", "rloo": "rloo"}.items()
    assert results.arms["dapo as typed"].arm.objective == "dapo" and len(results.arms["dapo as typed"].records) == 2
    assert again(copy, ()).experiments[0].results.others.keys() == results.others.keys()


@pytest.mark.slow
def test_what_is_open_gets_more_seeds_and_each_look_may_err_less(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlzoo.lab.suite.cells.FIRST_LOOK", 2)
    found = again(copy, (), seeds="auto(up_to=5)")
    (judged,) = found.experiments
    assert ControlFailure.POSITIVE in judged.controls.failed and found.looks == 3
    assert {label: len(arm.records) for label, arm in judged.results.arms.items()} == {
        "base": 5,
        "idle": 5,
        "dapo-dynamic_sampling": 2,
    }
    known = judged.controls.positive.difference
    assert known is not None and judged.controls.positive.corrected >= min(1, 3 * known.p_value)


def test_looks_by_hand_are_counted(copy: Path) -> None:
    once, twice = again(copy, ()), again(copy, (), seeds=3)
    assert (once.looks, twice.looks, again(copy, (), seeds=3).looks) == (1, 2, 2)
    assert "corrected for 2 interim analyses" in (copy / "out" / "suite.md").read_text()
    assert again(copy, (), seeds=[1100, 1101]).looks == 2  # registered ones count, however they are asked for
    for damaged in ("[2, ", "[1e400]", '"123"', "[-3]", "[true]"):
        (copy / "out" / "looks.json").write_text(damaged)
        with pytest.raises(UserError, match=r"looks\.json is damaged; remove it"):
            again(copy, ())


@pytest.mark.parametrize(
    "scores", ["{}", '{"length": 1}', '{"right": NaN, "length": 1}', '{"right": 1e200, "length": 1}']
)
def test_a_cell_without_its_scores_is_one_line(scores: str, copy: Path) -> None:
    changed(json.dumps(lines(copy / "out")[0]["scores"]), scores)(copy / "out" / "cells.jsonl")
    with pytest.raises(
        UserError, match=r"cells\.jsonl is damaged: .*(no score right|scores=.* not names with numbers)"
    ):
        again(copy, ())


def test_an_objective_that_an_experiment_cannot_ask_is_told(copy: Path) -> None:
    changed("Start(steps=15),", 'Start(steps=15),\n    added="+epochs(count=2)",')(copy / "my_file.py")
    found = planned([f"{copy / 'my_file.py'}:EXPERIMENT"], ["lopti", "grpo", "opd"], Seeds(1), False)
    assert [cell.arm.objective for cell in found.cells if cell.label == "grpo"] == ["grpo+epochs(count=2)"]
    assert list(found.refused) == [("coin", "lopti"), ("coin", "opd")] and "epochs" in found.refused["coin", "lopti"]
    assert "reads a teacher, and no experiment has one" in found.refused["coin", "opd"]


def test_two_calls_do_not_write_into_one_folder(copy: Path) -> None:
    with CellFile(copy / "out" / "cells.jsonl").held(), pytest.raises(UserError, match="another rlzoo suite writes"):
        again(copy)


@pytest.mark.slow
def test_processes_give_the_numbers_of_one(copy: Path) -> None:
    again(copy, output=copy / "new", jobs=2)
    key = ("arm", "seed")
    ours, theirs = (
        sorted(without_seconds(lines(copy / name)), key=lambda line: [str(line[it]) for it in key])
        for name in ("out", "new")
    )
    assert ours == theirs


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "experiments=rare_but_rihgt",
            "experiments=rare_but_rihgt: there is no such experiment; did you mean rare_but_right?",
        ),
        ("experiments=rare_but_right,rare_but_right", "each is named once"),
        ("experiments=no_file.py:EXPERIMENT", "there is no file no_file.py"),
        ("experiments=rare_but_right seeds=0", "must be how many seeds"),
        ("experiments=rare_but_right seeds=ten", "seeds=ten must be how many seeds, several seeds, auto or"),
        ("experiments=rare_but_right seeds=auto(up_to=10)", "up_to must be above 10, which all get, and at most 800"),
        ("experiments=rare_but_right seeds=auto(up_to=901)", "at most 800"),
        ("experiments=rare_but_right seeds=801", "800 seeds at most are registered"),
        ("experiments=rare_but_right seeds=3,3", "several different ones"),
        ("experiments=rare_but_right seeds=2000,2001", "are for base_against_base"),
        ("grpp", "did you mean grpo"),
        ("seed=3", "unknown key seed=3"),
        ("experiments=rlzoo.lab.suite.experiment:SETTINGS", "is a dict, not an Experiment"),
    ],
)
def test_a_mistake_is_a_line_before_anything_is_trained(
    words: str, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["suite", *words.split(), f"output={tmp_path / 'out'}"]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()
