"""A release says one version everywhere, is tried on every Python it is for, and environments are what was tested."""

import os
import re
import runpy
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCKS = sorted((ROOT / "locks").glob("*.txt"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
WORKFLOW = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
LOG = "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-12-01\n\n- A thing.\n"
disagreement = runpy.run_path(str(ROOT / ".github" / "check_tag.py"))["disagreement"]


def locked(path: Path) -> dict[str, str]:
    """Package -> version."""
    pairs = [line.split("==") for line in path.read_text(encoding="utf-8").splitlines()]
    return {canonicalize_name(name): version for name, version in pairs}


def required(*extras: str, folder: Path = ROOT) -> list[Requirement]:
    """What the distribution made in a folder requires, with these extras."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = [*project["dependencies"], *(it for extra in extras for it in project["optional-dependencies"][extra])]
    return [one for one in map(Requirement, texts) if one.name != "rlzoo-llm"]


# ---- tags ------------------------------------------------------------------------------------------------------------


def test_a_tag_a_version_and_a_log_that_agree_are_released() -> None:
    assert disagreement("v0.2.0", "0.2.0", LOG) == ""
    assert disagreement("v0.2.0", "0.2.0", LOG.replace("## Unreleased\n\n", "")) == ""


@pytest.mark.parametrize(
    ("tag", "version", "log", "said"),
    [
        ("v0.3.0", "0.2.0", LOG, "the tag is v0.3.0, and objectives/version.py says 0.2.0"),
        ("0.2.0", "0.2.0", LOG, "the tag is 0.2.0"),
        ("v0.2.0", "0.2.0", LOG.replace(" - 2026-12-01", ""), "no heading '## 0.2.0 - YYYY-MM-DD'"),
        ("v0.2.0", "0.2.0", LOG.replace("0.2.0", "0.2.01"), "no heading '## 0.2.0 - YYYY-MM-DD'"),
        ("v0.2.0", "0.2.0", LOG.replace("Unreleased\n", "Unreleased\n\n- Another.\n"), "changes under Unreleased"),
    ],
)
def test_what_does_not_agree_is_not_released(tag: str, version: str, log: str, said: str) -> None:
    assert said in disagreement(tag, version, log)


def test_what_is_published_was_tried_on_every_python_that_is_promised() -> None:
    (listed,) = re.findall(r"python: \[(.*)\]", WORKFLOW)
    assert listed == '"3.11", "3.12", "3.13"'
    assert "run: make test-wheels" in WORKFLOW and "needs: [try, audit]" in WORKFLOW.partition("  publish:")[2]
    assert "id-token: write" in WORKFLOW.partition("  publish:")[2] and "secrets." not in WORKFLOW


PIPX = """#!/bin/bash
# Ends as pip-audit does: with 1 for a finding, and by --strict for a package that cannot be looked up.
lock="${@: -1}"
echo "$lock" >> looked_up
grep -q vulnerable "$lock" && exit 1
[[ "$*" == *" --strict "* ]] && grep -q unknown "$lock" && exit 1
exit 0
"""


@pytest.mark.parametrize(("package", "status"), [("clean", 0), ("vulnerable", 1), ("unknown", 1)])
def test_the_audit_looks_up_every_lock_and_fails_if_one_of_them_does(package: str, status: int, tmp_path: Path) -> None:
    (script,) = (step["run"] for step in yaml.safe_load(WORKFLOW)["jobs"]["audit"]["steps"] if "run" in step)
    (tmp_path / "locks").mkdir()
    for lock, content in {"first": "clean", "second": package, "third": "clean"}.items():
        (tmp_path / "locks" / f"{lock}.txt").write_text(f"{content}==1.0\n")
    (tmp_path / "pipx").write_text(PIPX)
    (tmp_path / "pipx").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    audit = subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
    assert audit.returncode == status
    looked_up = (tmp_path / "looked_up").read_text().split()
    assert looked_up == ["locks/first.txt", "locks/second.txt", "locks/third.txt"]


# ---- locks -----------------------------------------------------------------------------------------------------------


def test_every_environment_of_the_makefile_has_its_lock() -> None:
    environments = re.findall(r"^\w+ := \.(venv[\w-]*)$", MAKEFILE, re.MULTILINE)
    environments.remove("venv-oldest")  # its versions are what the requirements begin with
    assert sorted(environments) == sorted(path.stem for path in LOCKS)
    assert all(f"locks/{name}.txt" in MAKEFILE for name in environments)
    assert "pip install" not in MAKEFILE.replace("-m pip install --quiet --constraint $(or $(LOCK)", "")


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_a_lock_names_versions_that_every_machine_can_have(path: Path) -> None:
    assert [it for it in path.read_text().splitlines() if not re.fullmatch(r"[\w.-]+==[\w.]+", it)] == []


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_a_lock_keeps_to_what_is_required_and_to_what_is_constrained(path: Path) -> None:
    found = locked(path)
    own = required("verl", folder=ROOT / "objectives") if path.stem == "venv-verl" else required()
    known = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    for one in [*own, *(Requirement(it) for it in known if it and not it.startswith("#"))]:
        version = found.get(canonicalize_name(one.name))
        assert version is None or version in one.specifier, f"{one}, and {version} is locked"


@pytest.mark.parametrize(
    ("name", "extras"),
    [
        ("venv", ("gguf", "test", "slurm", "ray", "dev", "docs", "pages", "trl")),
        ("venv-vllm", ("gguf", "test")),
        ("venv-harness", ("test",)),
    ],
)
def test_a_lock_has_everything_that_its_environment_asks_for(name: str, extras: tuple[str, ...]) -> None:
    assert {canonicalize_name(one.name) for one in required(*extras)} <= locked(ROOT / "locks" / f"{name}.txt").keys()
