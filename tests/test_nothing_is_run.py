"""No code of the two packages evaluates text, unpickles, or imports a name but where that is said here, and why."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(path for package in ("objectives", "rlzoo") for path in (ROOT / package).rglob("*.py"))
EVALUATES = {"eval", "exec", "compile", "__import__", "execfile"}
UNPICKLES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "jsonpickle"}
LOADS = {"torch.load", "numpy.load", "np.load", "pandas.read_pickle", "pd.read_pickle", "yaml.load", "yaml.unsafe_load"}
IMPORTS = {"import_module", "run_path", "run_module", "spec_from_file_location", "load_module", "exec_module"}
ALLOWED_IMPORTS = {
    "objectives/definitions.py": "part of an expression that a person typed, or a file that is trusted",
    "objectives/adapters/package.py": "seams of a peer's, written beside it",
    "objectives/methods/__init__.py": "the files of its folder",
    "objectives/parts/__init__.py": "the files of its folder",
    "rlzoo/__init__.py": "one of two of ours",
    "rlzoo/rollout/__init__.py": "an engine of ours, by a table",
    "rlzoo/suite/catalogue.py": "an experiment of ours, one of its folder",
    "rlzoo/tasks/__init__.py": "a task of ours, by a table",
    "rlzoo/tasks/outside.py": "task, reward, engine and experiment that a person typed, or a file that is trusted",
}
"""Where a module is imported by a name -> whose names these are."""


def dotted(node: ast.expr) -> str:
    """`a.b.c` of such an expression; empty for another."""
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return node.id if isinstance(node, ast.Name) else ""


def called(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """What is called, and in which line."""
    return ((dotted(node.func), node.lineno) for node in ast.walk(tree) if isinstance(node, ast.Call))


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules that are imported by statements."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def evaluations(source: str) -> list[str]:
    """What of a source evaluates text, unpickles, or loads what may be a pickle."""
    tree = ast.parse(source)
    found = [f"{name} in line {line}" for name, line in called(tree) if name in EVALUATES | LOADS]
    return [*found, *(name for name in imported(tree) if name.partition(".")[0] in UNPICKLES)]


def imports_by_name(source: str) -> list[str]:
    """Where a source imports what a text names."""
    return [f"{name} in line {line}" for name, line in called(ast.parse(source)) if name.split(".")[-1] in IMPORTS]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_text_is_evaluated_and_nothing_is_unpickled(path: Path) -> None:
    assert evaluations(path.read_text(encoding="utf-8")) == []


def test_modules_are_imported_by_name_only_where_a_person_gave_it() -> None:
    found = {str(path.relative_to(ROOT)): imports_by_name(path.read_text(encoding="utf-8")) for path in FILES}
    assert {name for name, calls in found.items() if calls} == ALLOWED_IMPORTS.keys(), found


@pytest.mark.parametrize(
    "source",
    [
        "eval(text)",
        "builtins = 1\nexec(text)",
        "import pickle",
        "from joblib import load",
        "torch.load(path)",
        "yaml.load(x)",
    ],
)
def test_what_evaluates_is_seen(source: str) -> None:
    assert evaluations(source)


def test_an_import_by_name_is_seen() -> None:
    assert imports_by_name("importlib.import_module(name)") and imports_by_name("runpy.run_path(path)")
