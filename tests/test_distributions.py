"""Two distributions, rlzoo-llm and rlzoo-objectives: what they hold, what they declare, and what texts say of them."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PACKAGES = {"rlzoo-llm": ("objectives", "rlzoo"), "rlzoo-objectives": ("objectives",)}
FOLDERS = {"rlzoo-llm": ROOT, "rlzoo-objectives": ROOT / "objectives"}
DEVELOPERS = {"benchmarks", "dev", "docs", "lessons", "pages", "test"}
"""Extras that no user of the packages needs; what the others name is imported where it is used."""
CALLED = {"hydra": "hydra-core", "transfer_queue": "transferqueue"}
"""A module that is not installed here -> its distribution."""


def project(name: str) -> dict[str, Any]:
    """The pyproject.toml of a distribution."""
    return tomllib.loads((FOLDERS[name] / "pyproject.toml").read_text(encoding="utf-8"))


def modules(package: str) -> list[Path]:
    """Its files of Python, without those that a build left."""
    return [path for path in sorted((ROOT / package).rglob("*.py")) if path.relative_to(ROOT).parts[1] != "build"]


def requirements(name: str) -> list[Requirement]:
    """What a distribution requires, always or for an extra that users ask for."""
    declared = project(name)["project"]
    extras = declared.get("optional-dependencies", {})
    optional = [text for extra, texts in extras.items() if extra not in DEVELOPERS for text in texts]
    return [Requirement(text) for text in (*declared["dependencies"], *optional)]


def packaged(name: str) -> set[str]:
    """The tracked files that a distribution's wheel holds."""
    apart = {f"objectives/{it}" for it in ("LICENSE", "README.md", "adapters/README.md", "pyproject.toml")}
    return {path for path in tracked() if path.partition("/")[0] in PACKAGES[name]} - apart


def imported(package: str) -> set[str]:
    """The distributions that a package's modules import or look for, anywhere in them."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in modules(package)]
    names = {name.partition(".")[0] for tree in trees for node in ast.walk(tree) for name in names_of(node)}
    known = packages_distributions()
    outside = names - set(sys.stdlib_module_names) - {"objectives", "rlzoo"}
    return {canonicalize_name(known.get(name, [CALLED.get(name, name)])[0]) for name in outside}


def names_of(node: ast.AST) -> Iterator[str]:
    """The modules that a statement imports, or that a call such as `find_spec("gguf")` looks for."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=str(module), level=0):
            yield module
        case ast.Call(func=ast.Name("find_spec" | "import_module"), args=[ast.Constant(str(module))]):
            yield module


@pytest.mark.parametrize("name", PACKAGES)
def test_a_distribution_declares_what_it_imports_and_nothing_else(name: str) -> None:
    declared = [canonicalize_name(requirement.name) for requirement in requirements(name)]
    needed = set.union(*(imported(package) for package in PACKAGES[name]))
    if name == "rlzoo-llm":  # verl, which wants an older transformers, goes with rlzoo-objectives
        needed -= {"hydra-core", "tensordict", "transferqueue", "verl"}
    else:
        needed |= {"cachetools", "fastapi", "uvicorn"}  # verl imports them, and declares them for its engines alone
    assert sorted(declared) == sorted(needed)


@pytest.mark.parametrize("name", PACKAGES)
def test_every_requirement_has_a_lower_bound_and_no_extra(name: str) -> None:
    for requirement in requirements(name):
        assert {bound.operator for bound in requirement.specifier} == {">="} and not requirement.extras, requirement


def test_the_library_lists_all_of_its_packages() -> None:
    found = {".".join(path.relative_to(ROOT).parts[:-1]) for path in modules("objectives")}
    assert sorted(project("rlzoo-objectives")["tool"]["setuptools"]["packages"]) == sorted(found)


def test_both_distributions_have_one_version_and_one_licence() -> None:
    one, other = (project(name) for name in PACKAGES)
    assert one["tool"]["setuptools"]["dynamic"]["version"] == other["tool"]["setuptools"]["dynamic"]["version"]
    assert (ROOT / "objectives" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.slow
def test_both_wheels_hold_every_file_of_their_packages(tmp_path: Path) -> None:
    source, command = tmp_path / "source", [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    for path in tracked():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_bytes((ROOT / path).read_bytes())
    (source / "objectives" / "build" / "lib" / "objectives").mkdir(parents=True)
    (source / "objectives" / "build" / "lib" / "objectives" / "__init__.py").touch()  # as an earlier build leaves it
    for name in PACKAGES:
        subprocess.run([*command, "--wheel-dir", tmp_path, source / FOLDERS[name].relative_to(ROOT)], check=True)
        with ZipFile(next(tmp_path.glob(f"{name.replace('-', '_')}-*.whl"))) as wheel:
            held = {path for path in wheel.namelist() if ".dist-info/" not in path}
        assert held == packaged(name)


# ---- texts -----------------------------------------------------------------------------------------------------------

INSTALL = re.compile(r"\b(?:pip3?|pipx|uv(?: pip| tool)?) +(?:install|add)\b([^\n`;|#]*)")
OURS = re.compile(r"(?<![\w/.-])rlzoo-llm\[([\w,-]+)\]")


def tracked() -> list[str]:
    """The project's files, but those that are deleted and not yet committed."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [path for path in listed if (ROOT / path).is_file()]


def texts() -> dict[str, str]:
    """Path -> text of every tracked file that is one."""
    found = {}
    for path in tracked():
        try:
            found[path] = (ROOT / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return found


def installs_another_project(text: str) -> Sequence[str]:
    """Where a text tells to install `rlzoo`, which is another project's name on the package index."""
    commands = [match.group(1).partition("&&")[0] for match in INSTALL.finditer(text.replace("\\\n", " "))]
    by_name = [
        line for line in commands for word in line.split() if re.match(r"rlzoo($|[\[<>=!~@'\",.])", word.strip("'\""))
    ]
    return by_name + re.findall(r"(?<![\w/.-])rlzoo\[[a-z][\w,-]*\]", text)


def test_no_text_tells_to_install_another_project() -> None:
    assert {path: found for path, text in texts().items() if (found := installs_another_project(text))} == {}


@pytest.mark.parametrize("wanted", ["{}", "{}==0.1.0", "'{}[vllm]'", "-U {}", "torch {}", '"{}>=1"'])
@pytest.mark.parametrize("tool", ["pip install", "python -m pip install", "uv add", "uv pip install", "pipx install"])
def test_the_other_projects_name_is_seen_wherever_it_is_installed(tool: str, wanted: str) -> None:
    assert installs_another_project(f"first `{tool} {wanted.format('rlzoo')}`, then train")


@pytest.mark.parametrize(
    "right",
    ["rlzoo-llm", "rlzoo-objectives", "'rlzoo-llm[vllm]'", "-e .", "./objectives", ". && rlzoo train", "/tmp/rlzoo"],
)
def test_the_projects_own_names_and_paths_are_right(right: str) -> None:
    assert not installs_another_project(f"`pip install {right}` is enough for `rlzoo train`")


def test_every_extra_that_a_text_names_exists() -> None:
    extras = set(project("rlzoo-llm")["project"]["optional-dependencies"])
    named = {extra for text in texts().values() for match in OURS.finditer(text) for extra in match.group(1).split(",")}
    assert {"vllm", "gguf"} <= named <= extras


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_how_to_open_a_lesson_is_said_and_its_extra_brings_what_opens_it(page: str) -> None:
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert "pip install -e '.[lessons]'" in text and "jupyter lab docs/lessons" in text
    extra = project("rlzoo-llm")["project"]["optional-dependencies"]["lessons"]
    assert [Requirement(it).name for it in extra] == ["jupyterlab"] and list((ROOT / "docs/lessons").glob("*.ipynb"))


def test_every_link_of_a_page_leads_somewhere() -> None:
    broken = []
    for path, text in texts().items():
        for target in re.findall(r"\]\(([^()\s]+)\)", text) if path.endswith(".md") else ():
            file = target.partition("#")[0]
            if file and "://" not in file and not (ROOT / path).parent.joinpath(file).exists():
                broken.append(f"{path}: {target}")
    assert broken == []
