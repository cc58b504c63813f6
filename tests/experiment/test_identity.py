"""What an objective is known by: its own parts, whatever else is registered and however it was written."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from objectives import ObjectiveError, parse
from objectives.zoo import PARTS, RECIPES, Recipe
from rlzoo.commands import main
from rlzoo.comparing.grid import read_grid
from rlzoo.config import Config, load_config, to_yaml
from rlzoo.errors import UserError
from rlzoo.experiment.check import check
from rlzoo.experiment.claim import claim
from rlzoo.experiment.identity import read_objective
from rlzoo.experiment.machine import our_version
from rlzoo.experiment.run_folder import TRAINED, RunFolder
from rlzoo.files import read_json_lines, write_json_lines, write_text
from tests.objectives.zoo_names import of_one_turn
from tests.thinned import thinned

SMALL = (
    "rollout.prompts_per_step=2",
    "rollout.responses_per_prompt=5",
    "train.steps=1",
    "evaluation.problems=4",
    "evaluation.samples=2",
    "task.problems=50",
)
STAPO = [
    "stapo",
    "stapo+clip_higher",
    "justrl + stapo",
    "stapo(variant=paper)",
    "dapo+s2t-dynamic_sampling-soft_overlong",
]
"""Spellings of one objective."""
Make = Callable[..., RunFolder]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def small(*words: str) -> Config:
    """A run of seconds."""
    return load_config([*SMALL, *words])


def folder_of(*words: str) -> str:
    """The folder that a run goes into."""
    return str(check(small(*words)).folder)


def begun(folder: str, *words: str) -> RunFolder:
    """A run of one step as it was begun before objectives were recorded."""
    run = RunFolder(Path(folder))
    run.path.mkdir(parents=True)
    write_json_lines(run.metrics, [{**dict.fromkeys(TRAINED.needed, 0.0), "step": 1}])
    run.config.write_text(to_yaml(small(*words)))
    return run


def recorded(folder: str, *words: str) -> RunFolder:
    """A run of one step that records its objective."""
    run = RunFolder(Path(folder))
    write_json_lines(run.metrics, [{**dict.fromkeys(TRAINED.needed, 0.0), "step": 1}])
    write_text(run.config, to_yaml(small(*words, "resume=true")))
    claim(run, small(*words, "resume=true")).close()
    return run


def with_other_defaults(run: RunFolder) -> RunFolder:
    """The run as if `stapo` had had another quantile at its time."""
    described = json.loads(run.objective.read_text())
    described["key"] = described["key"].replace("q=0.75", "q=0.5")
    run.objective.write_text(json.dumps(described))
    return run


# ---- what is registered ----------------------------------------------------------------------------------------------


@contextmanager
def registered(recipes: dict[str, str]) -> Iterator[None]:
    """While the zoo has further recipes, name -> expression."""
    for name, expression in recipes.items():
        parts = parse(expression).parts
        names = tuple(part.name for part in parts)
        RECIPES[name] = Recipe(name, "", "", {"paper": parts}, names, module="objectives.methods.later")
    try:
        yield
    finally:
        for name in recipes:
            RECIPES.pop(name, None)


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """A recipe, further ideas, less a part."""
    names = st.sampled_from(sorted({*RECIPES, *PARTS} - {"dynamic_sampling"}))
    expression = "+".join([draw(st.sampled_from(sorted(RECIPES))), *draw(st.lists(names, max_size=2))])
    try:
        removable = [part.name for part in parse(expression).parts if not part.exclusive]
        if removable and draw(st.booleans()):
            expression = f"{expression}-{draw(st.sampled_from(removable))}"
        assume("logp_teacher" not in parse(expression).needs)  # a teacher has to be named besides
        assume(of_one_turn([expression]))
    except ObjectiveError:
        assume(False)
    return expression


@pytest.mark.slow
@settings(deadline=None, derandomize=True, max_examples=15)
@given(
    asked=expressions(),
    others=st.lists(expressions(), max_size=2),
    name=st.from_regex("[a-z]_[a-z]{1,5}", fullmatch=True),
)
def test_what_is_registered_later_changes_no_key_and_no_folder(asked: str, others: list[str], name: str) -> None:
    words = [asked, "dapo", *SMALL, "seeds=0,1"]

    def known() -> tuple[str, str, list[str]]:
        grid, _ = read_grid([*words, "output=new"], ["stapo+kl"])
        folders = [f"{cell.folder.path} {parse(cell.config.objective).key}" for cell in grid.cells]
        return parse(asked).key, folder_of(f"objective={asked}", "model.reference=initial"), folders

    before = known()
    with registered({name: asked, **{f"{name}_{i}": other for i, other in enumerate(others)}}):
        assert known() == before


def test_a_shorter_name_renames_no_run_and_no_cell() -> None:
    written = "grpo+group_center+token_mean-kl"
    run = recorded(folder_of(f"objective={written}"), f"objective={written}")
    grid, _ = read_grid([written, *SMALL, "output=grid"])
    grid.folder.mkdir()
    grid.save()
    with registered({"dr": written}):
        assert str(parse(written)) == "dr"
        assert Path(folder_of(f"objective={written}")) == Path(folder_of("objective=dr")) == run.path
        for again in (written, "dr"):
            joined, _ = read_grid([again, *SMALL, "output=grid"])
            assert [cell.folder for cell in joined.cells] == [cell.folder for cell in grid.cells]


# ---- run folders -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", STAPO)
def test_a_new_run_is_named_by_what_was_typed(written: str) -> None:
    name = written.replace(" ", "").replace("(", "-").replace(")", "")
    assert folder_of(f"objective={written}") == f"runs/sums-{name}-0"


@pytest.mark.parametrize("make", [begun, recorded])
@pytest.mark.parametrize("written", thinned(STAPO, 2))
def test_two_spellings_are_one_run(written: str, make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    run = make("runs/sums-as_it_was-0", "objective=justrl+s2t")
    assert folder_of(f"objective={written}") == str(run.path)
    assert main(["train", f"objective={written}", *SMALL]) == 2
    assert f"output={run.path} holds a run already; resume=true" in capsys.readouterr().err
    assert folder_of(f"objective={written}+kl") != str(run.path)
    assert folder_of(f"objective={written}", "seed=1") != str(run.path)


def test_a_run_of_another_seed_or_task_is_another_run() -> None:
    begun("runs/stapo10", "objective=stapo", "seed=10")
    assert folder_of("objective=stapo", "seed=0", "output=runs/{objective}{seed}") == "runs/stapo0"
    begun("runs/sums-knights-stapo", "objective=stapo", "task.name=knights", "model.name=embedded:knights")
    assert folder_of("objective=justrl+s2t", "output=runs/{task}-{objective}") == "runs/sums-justrl+s2t"


def test_what_the_name_does_not_fix_is_left_to_the_run() -> None:
    begun("runs/a", "objective=stapo", "seed=10")
    assert folder_of("objective=justrl+s2t", "output=runs/{objective}") == "runs/a"


def test_an_output_that_names_no_objective_is_that_folder() -> None:
    begun("runs/a", "objective=stapo")
    assert folder_of("objective=stapo", "output=runs/b") == "runs/b"


def test_an_output_is_no_pattern() -> None:
    begun("runs/x/stapo", "objective=stapo")
    assert folder_of("objective=justrl+s2t", "output=runs/[x]/{objective}") == "runs/[x]/justrl+s2t"
    begun("runs/[x]/stapo", "objective=stapo")
    assert folder_of("objective=justrl+s2t", "output=runs/[x]/{objective}") == "runs/[x]/stapo"


@pytest.mark.parametrize("config", ["objective: [", "objective: no_such_objective", "train: {stepz: 1}", "\xff"])
def test_what_cannot_be_read_is_no_match(config: str) -> None:
    for name in ("sums-a-0", "sums-b-0"):
        Path("runs", name).mkdir(parents=True)
    Path("runs/sums-a-0/config.yaml").write_bytes(config.encode("latin-1"))
    assert folder_of("objective=stapo") == "runs/sums-stapo-0"
    begun("runs/sums-c-0", "objective=stapo")
    assert folder_of("objective=stapo") == "runs/sums-c-0"


@pytest.mark.parametrize("make", [begun, recorded])
def test_a_name_that_another_objective_has_gets_the_digest(make: Make) -> None:
    make("runs/sums-stapo-0", "objective=dapo")
    digest = parse("stapo").key.rpartition("#")[2]
    assert folder_of("objective=stapo") == f"runs/sums-stapo-{digest}-0"
    make(f"runs/sums-stapo-{digest}-0", "objective=stapo")
    assert folder_of("objective=justrl+s2t") == folder_of("objective=stapo") == f"runs/sums-stapo-{digest}-0"
    assert folder_of("objective=dapo") == "runs/sums-stapo-0"


def test_a_long_expression_makes_a_name_that_a_file_system_takes() -> None:
    long = "stapo" + "+kl(beta=0.1)" * 30
    names = {Path(folder_of(f"objective={written}")).name for written in (long, f"{long}+ar", f"{long}+lopti")}
    assert len(names) == 3 and all(len(name) < 150 for name in names)


# ---- going on with a run ---------------------------------------------------------------------------------------------


def test_a_run_records_what_it_trains() -> None:
    run = recorded("run", "objective=stapo+clip_higher")
    objective = parse("stapo")
    described = {"key": objective.key, **objective.describe(), "code": {"parts": {}, "task": {}}}
    assert json.loads(run.objective.read_text()) == {**described, "rlzoo": [our_version()]}


@pytest.mark.slow
@pytest.mark.parametrize("is_old", [True, False])
def test_a_run_goes_on_under_another_spelling(is_old: bool) -> None:
    words = (*SMALL, "checkpoint.every=1", "checkpoint.keep=9")
    assert main(["train", "objective=stapo+clip_higher", *words]) == 0
    run = RunFolder(Path("runs/sums-stapo+clip_higher-0"))
    if is_old:
        run.objective.unlink()
        run = RunFolder(run.path.rename("runs/sums-stapo-0"))
    first = run.metrics.read_text()
    for steps, written in ((2, "stapo"), (3, "justrl + s2t")):
        assert main(["train", f"objective={written}", *words, f"train.steps={steps}", "resume=true"]) == 0
    assert [path.name for path in Path("runs").iterdir()] == [run.path.name]
    assert run.metrics.read_text().startswith(first) and len(read_json_lines(run.metrics)) == 3
    assert read_objective(run.path).key == parse("stapo").key


@pytest.mark.parametrize("make", [begun, recorded])
def test_a_run_does_not_go_on_with_another_objective(make: Make) -> None:
    run = make("run", "objective=stapo+clip_higher")
    with pytest.raises(UserError, match=r"objective=dapo, but the run in run has stapo.*; a resumed run keeps"):
        claim(run, small("objective=dapo", "resume=true"))
    with pytest.raises(UserError, match=r"train\.learning_rate=1\.0, but"):
        claim(run, small("objective=stapo", "resume=true", "train.learning_rate=1"))


def test_a_run_does_not_go_on_where_its_name_means_something_else_by_now(capsys: pytest.CaptureFixture[str]) -> None:
    run = with_other_defaults(recorded("runs/sums-stapo-0", "objective=stapo"))
    for written in ("stapo", "stapo+clip_higher"):
        assert main(["train", f"objective={written}", "resume=true", *SMALL]) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert f"objective={written} has s2t(" in line and f"where the run in {run.path} has s2t(" in line
        assert "q=0.75" in line and "q=0.5" in line
    assert [path.name for path in Path("runs").iterdir()] == [run.path.name]


def test_a_broken_record_is_one_clear_line() -> None:
    run = recorded("run", "objective=stapo")
    for text in ("{", "[]", '{"key": "x"}', "\xff"):
        run.objective.write_bytes(text.encode("latin-1"))
        with pytest.raises(UserError, match=r"run/objective.json is not readable"):
            claim(run, replace(small("objective=stapo"), resume=True))
