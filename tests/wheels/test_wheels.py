"""What is released, in empty environments outside any checkout: make test-wheels PYTHONS="python3.11 python3.13".

`make wheels` builds sdists, and from these the wheels, into dist/.
"""

import json
import os
import re
import subprocess
import sys
import tarfile
import textwrap
from collections.abc import Callable
from email import message_from_bytes
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.test_distributions import PACKAGES, packaged, tracked

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
PYTHONS = os.environ.get("PYTHONS", sys.executable).split()
SHORT = ["train.steps=2", "rollout.prompts_per_step=4", "evaluation.problems=8", "evaluation.samples=1"]
OUTSIDE = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
LARGEST = 16
"""MiB of a wheel; the shipped models are most of it."""


def built(name: str, kind: str) -> Path:
    """The one file of a distribution in dist/."""
    (found,) = DIST.glob(f"{name.replace('-', '_')}-*{kind}")
    return found


def version() -> str:
    """That of the checkout."""
    text = (ROOT / "objectives" / "version.py").read_text(encoding="utf-8")
    return re.findall(r'^VERSION = "(.+)"$', text, re.MULTILINE)[0]


def library_example() -> str:
    """The library's example as the documentation has it."""
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^    import torch; from objectives.*?(?=\n\n)", text, re.MULTILINE | re.DOTALL)
    return textwrap.dedent(example)


@pytest.fixture(scope="module", params=PYTHONS)
def python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty environment of each Python."""
    folder = tmp_path_factory.mktemp("empty") / "environment"
    subprocess.run([request.param, "-m", "venv", folder], check=True)
    return folder / "bin" / "python"


@pytest.fixture
def said(python: Path, tmp_path: Path) -> Callable[..., str]:
    """Runs a program of the environment in an empty folder, and gives what it printed."""

    def run(program: str, *words: str | Path) -> str:
        command = [python.with_name(program), *words]
        done = subprocess.run(command, cwd=tmp_path, env=OUTSIDE, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def installed(said: Callable[..., str]) -> Callable[[str], None]:
    """Installs one of the two distributions, which are alternatives, from its wheel."""

    def install(name: str) -> None:
        said("python", "-m", "pip", "uninstall", "--quiet", "--yes", *PACKAGES)
        said("python", "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", built(name, ".whl"))

    return install


@pytest.mark.parametrize("name", PACKAGES)
def test_the_wheel_that_an_sdist_makes_holds_every_file_as_it_is_here(name: str) -> None:
    with ZipFile(built(name, ".whl")) as wheel:
        held = {path: wheel.read(path) for path in wheel.namelist() if ".dist-info/" not in path}
    assert held == {path: (ROOT / path).read_bytes() for path in packaged(name)}
    assert built(name, ".whl").stat().st_size < LARGEST * 2**20


@pytest.mark.parametrize("name", PACKAGES)
def test_an_sdist_holds_nothing_that_is_not_tracked(name: str) -> None:
    with tarfile.open(built(name, ".tar.gz")) as sdist:
        held = {path.partition("/")[2] for path in sdist.getnames() if sdist.getmember(path).isfile()}
    folder = "" if name == "rlzoo-llm" else "objectives/"
    known = {path.removeprefix(folder) for path in tracked()} | {"PKG-INFO", "setup.cfg"}
    assert {path for path in held - known if ".egg-info/" not in path} == set()


@pytest.mark.parametrize("name", PACKAGES)
def test_what_is_built_says_its_name_its_version_and_its_pythons(name: str) -> None:
    with ZipFile(built(name, ".whl")) as wheel:
        (path,) = (it for it in wheel.namelist() if it.endswith(".dist-info/METADATA"))
        said = message_from_bytes(wheel.read(path))
    assert (said["Name"], said["Version"], said["Requires-Python"]) == (name, version(), ">=3.11")


def test_the_library_alone_needs_torch_alone(installed: Callable[[str], None], said: Callable[..., str]) -> None:
    installed("rlzoo-objectives")
    gradients = said("python", "-c", f"{library_example()}\nprint(parse('stapo+clip_higher').token_gradients(batch))")
    assert gradients.startswith("[tensor(")
    names = {it["name"].lower() for it in json.loads(said("python", "-m", "pip", "list", "--format=json"))}
    assert "rlzoo-objectives" in names and not names & {"rlzoo-llm", "transformers", "accelerate", "datasets"}


def test_the_wheel_trains_and_shows_outside_any_checkout(
    installed: Callable[[str], None], said: Callable[..., str], tmp_path: Path
) -> None:
    installed("rlzoo-llm")
    said("rlzoo", "train", *SHORT)
    (metrics,) = tmp_path.glob("runs/*/metrics.jsonl")
    assert len(metrics.read_text().splitlines()) == 2
    assert "stapo" in said("rlzoo", "objectives")
    assert "s2t" in said("rlzoo", "objectives", "stapo", "dapo")
    assert said("rlzoo", "--version").split()[-1] == version()
    said("python", "-c", library_example())
    assert str(ROOT) not in said("python", "-c", "import rlzoo; print(rlzoo.__file__)")
