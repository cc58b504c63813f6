"""A target of `.ci/targets.toml` is left out only while nothing that it depends on has changed since it passed."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def _load() -> ModuleType:
    spec = spec_from_file_location("targets", ROOT / ".ci" / "targets.py")
    assert spec and spec.loader
    module = sys.modules["targets"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ci = _load()
HEAVY = ci.Target("heavy", ("code", "common.txt"))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit."""
    git(tmp_path, "init", "--quiet")
    (tmp_path / "code").mkdir()
    commit(tmp_path, "code/a.py", "1")
    return tmp_path


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
    return subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def commit(folder: Path, name: str, content: str) -> str:
    """Writes and commits a file; returns the commit."""
    (folder / name).write_text(content)
    git(folder, "add", name)
    git(folder, "commit", "--quiet", "--message", name)
    return git(folder, "rev-parse", "HEAD")


def decision(checkout: Path, passed_at: str | None, target: object = HEAVY) -> tuple[bool, str]:
    """Whether the target would run, and why."""
    record = ci.Record(checkout / "passed.json", {"heavy": {"commit": passed_at}} if passed_at else {})
    found = ci.decide(target, record, ci.Repository(checkout))
    return found.runs, found.reason


def test_a_target_is_left_out_while_nothing_it_depends_on_changed(checkout: Path) -> None:
    passed_at = git(checkout, "rev-parse", "HEAD")
    commit(checkout, "other.py", "1")
    assert decision(checkout, passed_at) == (
        False,
        f"nothing that it depends on changed since {passed_at[:7]}, where it passed",
    )
    assert decision(checkout, passed_at, ci.Target("heavy")) == (True, "runs for every change")
    nightly = decision(checkout, passed_at, ci.Target("heavy", nightly=True))
    assert nightly == (False, "runs in make test-nightly only; it passed there 1 commits ago")


@pytest.mark.parametrize("name", ["code/a.py", "code/b.py", "common.txt"])
def test_a_target_runs_once_something_it_depends_on_changed(name: str, checkout: Path) -> None:
    passed_at = git(checkout, "rev-parse", "HEAD")
    (checkout / name).write_text("2")
    assert decision(checkout, passed_at)[0]  # before it is committed
    changed_at = commit(checkout, name, "2")
    assert decision(checkout, passed_at) == (True, f"changed since {passed_at[:7]}, where it passed: {name}")
    assert not decision(checkout, changed_at)[0]
    git(checkout, "rm", "--quiet", name)
    git(checkout, "commit", "--quiet", "--message", "gone")
    assert decision(checkout, changed_at)[0]


def test_a_target_runs_where_no_commit_says_that_it_passed(checkout: Path) -> None:
    assert decision(checkout, None)[0]
    assert "no ancestor" in decision(checkout, "0" * 40)[1]
    start = git(checkout, "rev-parse", "HEAD")
    elsewhere = commit(checkout, "other.py", "1")
    git(checkout, "reset", "--quiet", "--hard", start)
    assert decision(checkout, elsewhere)[0]


def test_a_target_runs_after_200_commits_whatever_changed(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passed_at = git(checkout, "rev-parse", "HEAD")
    for number in range(3):
        commit(checkout, "other.py", str(number))
    assert ci.MOST_COMMITS == 200
    monkeypatch.setattr(ci, "MOST_COMMITS", 3)
    assert not decision(checkout, passed_at)[0]
    monkeypatch.setattr(ci, "MOST_COMMITS", 2)
    assert decision(checkout, passed_at)[0]


def pretended(failing: str) -> Callable[[object], float | None]:
    """Runs nothing; one target fails."""
    return lambda target: None if getattr(target, "name", "") == failing else 1.0


def test_a_run_ends_at_the_first_failure_and_says_what_was_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    decisions = [ci.Decision(ci.Target(name), name != "b", f"reason of {name}") for name in "abcd"]
    assert ci.run(decisions, pretended("none")) == 0
    assert capsys.readouterr().out.endswith("skip b: reason of b\n")
    assert ci.run(decisions, pretended("c")) == 1
    said = capsys.readouterr().out
    assert "==== make a passed" in said and "make c failed" in said and "==== make d" not in said


def test_all_targets_run_and_those_that_pass_are_recorded(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path_factory.mktemp("record") / "passed.json"
    targets, here = [ci.Target(name) for name in "abc"], ci.Repository(checkout)
    assert ci.run_all(targets, ci.Record.read(file), here, pretended("b")) == 1
    head = git(checkout, "rev-parse", "HEAD")
    assert ci.Record.read(file).entries == {name: {"commit": head, "seconds": 1} for name in "ac"}
    assert ci.run_all(targets, ci.Record.read(file), here, pretended("")) == 0
    (checkout / ".ci").mkdir()
    (checkout / ".ci" / "passed.json").write_text("{}")
    assert ci.run_all(targets, ci.Record.read(file), here, pretended("")) == 0
    moved = ci.Record(file)
    assert ci.run_all(targets, moved, here, lambda target: float(bool(commit(checkout, "late.py", "")))) == 2
    assert moved.entries == {}
    (checkout / "new.py").write_text("")
    assert ci.run_all(targets, ci.Record.read(file), here, pretended("")) == 2
    assert "commit" in capsys.readouterr().err


def test_a_target_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert ci.main(["nightly", "test-vlm"]) == 2
    assert capsys.readouterr().err == "test-vlm is no target of targets.toml\n"
    assert ci.main(["everything"]) == 2


# ---- the targets of this project -------------------------------------------------------------------------------------

TARGETS = {target.name: target for target in ci.read_targets()}
OPTIONS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
LEFT_OUT = [name for name in OPTIONS["norecursedirs"] if name.startswith("tests/")]
"""Folders that `make test` does not look at."""


def whole(name: str) -> str:
    """The target of the Makefile that has this one in it: `test-slow` has the rooms of `test-slow-ROOM`."""
    return "test-slow" if re.fullmatch(r"test-slow-\w+", name) else name


def test_every_test_target_of_the_makefile_is_run_by_ci_or_at_night() -> None:
    targets = set(re.findall(r"^((?:test|check)[\w-]*):", MAKEFILE, re.MULTILINE)) - {"test-nightly"}
    assert targets == {whole(name) for name in TARGETS if name.startswith(("test", "check"))}
    every_time = {name for name, target in TARGETS.items() if not target.paths and not target.nightly}
    assert every_time == {"check", "test", "train", "test-smoke"}


def test_every_file_with_slow_tests_is_run_by_one_target() -> None:
    rooms = [name.removeprefix("test-slow-") for name in TARGETS if whole(name) != name]
    shown = [made(f"test-slow-{room}").split("--timeout=1200 ")[1].split() for room in rooms]
    places = [place for places in shown for place in places]
    assert len(places) == len(set(places)) and all((ROOT / place).exists() for place in places)
    slow = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py") if is_slow(path)]
    assert [file for file in slow if not file.startswith((*places, *LEFT_OUT))] == []
    for room, folders in zip(rooms, shown, strict=True):
        paths = [path for path in TARGETS[f"test-slow-{room}"].paths if not path.startswith(":")]
        assert all(place in paths for place in folders if (ROOT / place).is_dir()), room


def made(target: str) -> str:
    """The commands of a target."""
    words = ["make", "--dry-run", "--always-make", "--no-print-directory", target]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def is_slow(path: Path) -> bool:
    """Whether a file has slow tests."""
    return bool(re.search(r"mark\.slow|thinned\(", path.read_text(encoding="utf-8")))


def test_the_workflows_run_what_ci_runs_and_the_oldest_versions() -> None:
    checks, site, nightly = (
        (ROOT / ".github" / "workflows" / f"{name}.yml").read_text("utf-8") for name in ("checks", "docs", "nightly")
    )
    (listed,) = re.findall(r"target: \[(.*)\]", checks.replace(" test-oldest,", ""))
    assert "run: make ${{ matrix.target }}" in checks
    run = {*listed.split(", "), *re.findall(r"run: make ([\w-]+)$", site, re.MULTILINE)}
    assert run | {"docs"} == {whole(name) for name, target in TARGETS.items() if not target.nightly}  # of test-docs
    assert " test-oldest," in checks and "test-oldest]" in nightly


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.paths])
def test_every_path_of_a_target_is_there(name: str) -> None:
    for path in TARGETS[name].paths:
        assert git(ROOT, "ls-files", path.replace(":(exclude)", "")), path


def test_a_folder_that_the_fast_tests_leave_out_has_a_target_that_depends_on_it() -> None:
    commands = {name: made(name) for name in TARGETS}
    for folder in LEFT_OUT:
        running = [target for name, target in TARGETS.items() if folder in commands[name]]
        assert running and all(target.nightly or folder in target.paths for target in running), folder
