"""What is said at a key decides what makes a run or a grid another one, and which command takes the key."""

import dataclasses
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from objectives import parse
from rlzoo.comparing.finished_runs import FinishedRun, check_comparable, read_runs
from rlzoo.comparing.grid import read_grid
from rlzoo.comparing.grid_words import default_folder
from rlzoo.config import Config, load_config
from rlzoo.config.command_keys import OWN
from rlzoo.config.schema import GRID_IDENTITY, LENGTH, RUN_IDENTITY, Decides, Key, keys
from rlzoo.config.words import keys_of, words_of
from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate_target import evaluate_target
from rlzoo.evaluation.target import read_target
from rlzoo.experiment.claim import check_same
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.inspecting.task_look import look_at_task
from rlzoo.report.terminal import Terminal
from rlzoo.rollout.memory import shape_of
from rlzoo.training.fit import GIB, arithmetic, fit
from tests.comparing.finished_runs import make_run
from tests.conftest import error_of
from tests.thinned import thinned

KEYS = keys(Config)
NAMES = [key.name for key in KEYS]
TOLD_TO_THE_POLICY = {"model.share_prompts", "model.gradient_checkpointing"}
"""Every policy is told these, and heeds them where it trains."""
FIRST_WORDS = {"eval": ["embedded:sums"], "inspect": ["run"], "grade": ["file"], "push": ["run", "me/model"]}
"""What stands before the keys of a command."""


def another(key: Key) -> str:
    """A word that sets the key to another value than its default."""
    if key.name == "objective":
        return "objective=dapo"
    if key.choices:
        value: Any = next(choice for choice in key.choices if choice != str(key.default))
    elif typing.get_origin(key.type) in (list, tuple):
        value = "[0.25,0.5]" if float in typing.get_args(key.type) else "[other]"
    elif typing.get_origin(key.type) is dict:
        value = "{other: 1}"
    elif key.type is bool:
        value = str(not key.default).lower()
    elif isinstance(key.default, int):
        value = key.default + 1
    elif int in typing.get_args(key.type):
        value = 2
    else:
        number = 0.25 if key.default == 0.5 else 0.5
        value = number if float in (key.type, *typing.get_args(key.type)) else "other"
    return f"{key.name}={value}"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, FinishedRun]]:
    """A finished run, one whose rate falls towards its end, one before its first step, and one of another seed."""
    folder = tmp_path_factory.mktemp("runs")
    names = {"constant": "constant", "cosine": "cosine", "new": "constant", "other": "constant"}
    for name, schedule in names.items():
        make_run(folder / name, "grpo", int(name == "other"), 0.5, f"train.schedule={schedule}")
    read, _, _ = read_runs([str(folder / name) for name in ("constant", "cosine", "new", "other")])
    finished = dict(zip(names, read, strict=True))
    finished["new"].folder.metrics.unlink()
    with pytest.MonkeyPatch.context() as patch:  # reading YAML takes most of the time
        configs = {run.folder.path: run.config for run in read}
        patch.setattr(RunFolder, "read_config", lambda folder: configs[folder.path])
        yield finished


def changed(run: FinishedRun, key: Key) -> Config:
    """The configuration of the run with another value of a key."""
    config: Config = load_config([*words_of(run.config), another(key)])
    return config


def is_refused(check: Callable[[], object]) -> bool:
    try:
        check()
    except UserError:
        return True
    return False


@pytest.mark.parametrize("key", KEYS, ids=NAMES)
def test_every_key_says_what_it_decides(key: Key) -> None:
    assert len([fact for fact in key.facts if isinstance(fact, Decides)]) == 1


@pytest.mark.parametrize("key", thinned(KEYS, 3), ids=NAMES)
def test_a_run_keeps_what_decides_it_and_nothing_else(runs: dict[str, FinishedRun], key: Key) -> None:
    def is_kept(name: str) -> bool:
        return is_refused(lambda: check_same(changed(runs[name], key), runs[name].folder))

    decides = key.decides in RUN_IDENTITY
    assert is_kept("constant") == (decides and key.decides is not LENGTH)
    assert is_kept("cosine") == decides or key.name == "train.schedule"
    assert is_kept("new") == (decides and key in keys_of("eval"))


@pytest.mark.parametrize("key", thinned(KEYS, 3), ids=NAMES)
def test_grids_are_others_and_runs_not_compared_where_what_decides_a_grid_differs(
    runs: dict[str, FinishedRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: Key
) -> None:
    monkeypatch.chdir(tmp_path)
    decides = key.decides in GRID_IDENTITY
    schedule = "train.schedule=constant"
    assert (default_folder([schedule, another(key)]) != default_folder([schedule])) == decides
    config = changed(runs["other"], key)
    config.seed += key.name == "seed"  # which is 0 in the first
    assert (
        is_refused(lambda: check_comparable([runs["constant"], dataclasses.replace(runs["other"], config=config)]))
        == decides
    )


@pytest.mark.parametrize("word", ["rollout.server=http://there:{}", "train.sharding={}"])
def test_a_grid_goes_on_with_another_port_and_another_sharding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before, after = ("none", "fsdp") if "sharding" in word else ("8001", "8002")
    grid, _ = read_grid(["grpo", word.format(before), "train.steps=3"])
    grid.save()
    assert default_folder([word.format(after), "train.steps=3"]) == grid.folder


@pytest.mark.parametrize("key", thinned(KEYS, 4), ids=NAMES)
def test_every_command_refuses_a_key_that_has_no_effect_there(key: Key, capsys: pytest.CaptureFixture[str]) -> None:
    for command in {*OWN, "task"} - {"train"}:
        if key.name not in {taken.name for taken in keys_of(command)}:
            message = error_of(capsys, command, *FIRST_WORDS.get(command, []), another(key))
            assert another(key) in message and ("has no effect" in message or "unknown key" in message), command


@contextmanager
def read_keys() -> Iterator[set[str]]:
    """The names of the keys whose values are read meanwhile."""
    names: set[str] = set()
    sections = {
        item.type: f"{item.name}." for item in dataclasses.fields(Config) if dataclasses.is_dataclass(item.type)
    }
    with pytest.MonkeyPatch.context() as patch:
        for section, prefix in {**sections, Config: ""}.items():

            def read(self: object, name: str, prefix: str = prefix) -> Any:
                names.add(f"{prefix}{name}")
                return object.__getattribute__(self, name)

            patch.setattr(section, "__getattribute__", read)
        yield names


def undeclared(command: str, names: set[str]) -> set[str]:
    """An engine copies its whole section, so that what it reads of that is not told apart."""
    names = {name for name in names if command == "fit" or not name.startswith("rollout.")}
    return names & set(NAMES) - {key.name for key in keys_of(command)}


def test_commands_read_no_key_but_those_that_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small = ["evaluation.problems=2", "evaluation.samples=1"]
    config = load_config(small)
    monkeypatch.setattr("rlzoo.inspecting.task_look.check_words", lambda config: None)
    monkeypatch.setattr("rlzoo.evaluation.target.check_keys", lambda config: None)
    with read_keys() as names:
        fit(config, shape_of(config.model), parse(config.objective), 1, 1000 * GIB)
        arithmetic(config, shape_of(config.model), parse(config.objective))
    assert undeclared("fit", names) == set()
    with read_keys() as names:
        _ = look_at_task(config).sampled
    assert undeclared("task", names) == TOLD_TO_THE_POLICY
    target = read_target("embedded:sums", small)
    with read_keys() as names:
        evaluate_target(target, Terminal(quiet=True))
    assert undeclared("eval", names) == TOLD_TO_THE_POLICY
