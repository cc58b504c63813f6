"""No code of the two packages evaluates text, unpickles, or imports a name but where that is said here, and why."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(path for package in ("objectives", "rlzoo") for path in (ROOT / package).rglob("*.py"))
EVALUATES = {"eval", "exec", "compile", "__import__", "execfile"}
"""Under these names, of `builtins`, or wherever it is put under another name."""
UNPICKLES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "jsonpickle"}
LOADS = {
    *("torch.load", "torch.jit.load", "torch.serialization.load", "numpy.load", "pandas.read_pickle"),
    *(f"yaml.{name}{which}" for name in ("load", "full_load", "unsafe_load") for which in ("", "_all")),
}
IMPORTS = {
    *("import_module", "run_path", "run_module", "spec_from_file_location", "load_module", "exec_module"),
    *("resolve_name", "find_loader", "find_module", "zipimporter", "SourceFileLoader", "iter_modules", "walk_packages"),
}
ENTRY_POINTS = {"entry_points", "EntryPoint"}
"""What has a `load` that imports."""
ALLOWED_IMPORTS = {
    "objectives/definitions.py": "part of an expression that a person typed, or a file that is trusted",
    "objectives/adapters/package.py": "seams of a peer's, written beside it",
    "rlzoo/__init__.py": "one of three of ours",
    "rlzoo/commands/__init__.py": "the laboratory's commands",
    "rlzoo/config/command_keys.py": "the laboratory's keys, by a table",
    "rlzoo/comparing/forked_runs.py": "modules of ours and of transformers, by a table",
    "rlzoo/rollout/__init__.py": "an engine of ours, by a table",
    "rlzoo/lab/suite/experiment.py": "an experiment of ours, one of its folder",
    "rlzoo/tasks/__init__.py": "a task of ours, by a table",
    "rlzoo/tasks/outside.py": "task, reward, engine and experiment that a person typed, or a file that is trusted",
}
"""Where a module is imported by a name -> whose names these are."""
ALLOWED_PICKLES = {
    "rlzoo/tasks/dataset.py": "marshal",  # a row is written as the key of a dict; nothing is read
    "rlzoo/tasks/sandbox.py": "pickle",  # what this process asks a worker, read there; answers are JSON
}


def dotted(node: ast.expr, aliases: dict[str, str]) -> str:
    """`a.b.c` of such an expression, with the name of a module for its alias; empty for another."""
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value, aliases)
        return f"{inner}.{node.attr}" if inner else ""
    return aliases.get(node.id, node.id) if isinstance(node, ast.Name) else ""


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """What statements import, by its whole name, and what it is called here."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((it.name, it.asname or it.name) for it in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((f"{node.module or ''}.{it.name}", it.asname or it.name) for it in node.names)


def read(tree: ast.AST) -> Iterator[str]:
    """Each name that is read, called or not, with the dots before it; and each that is imported."""
    aliases = {called: name for name, called in imported(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
            yield dotted(node, aliases) or getattr(node, "attr", "")
    yield from (name for name, _ in imported(tree))


def looked_up(tree: ast.AST) -> Iterator[str]:
    """The texts by which something is looked up: `getattr(builtins, "eval")`, `vars(builtins)["eval"]`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and dotted(node.func, {}) == "getattr":
            keys = node.args[1:2]
        else:
            keys = [node.slice] if isinstance(node, ast.Subscript) else []
        yield from (key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))


def evaluations(source: str) -> list[str]:
    """What of a source evaluates text, unpickles, or loads what may be a pickle."""
    tree = ast.parse(source)
    found = {name.removeprefix("builtins.").removeprefix("__builtins__.") for name in read(tree)}
    modules = {part for name, _ in imported(tree) for part in name.split(".")}
    return sorted((found & (EVALUATES | LOADS)) | (set(looked_up(tree)) & EVALUATES) | (modules & UNPICKLES))


def imports_by_name(source: str) -> list[str]:
    """Where a source imports what a text names."""
    tree = ast.parse(source)
    last = {name.rpartition(".")[2] for name in read(tree)}
    loads = last & ENTRY_POINTS if "load" in last else set()
    return sorted((last | set(looked_up(tree))) & IMPORTS | loads)


def test_no_text_is_evaluated_and_nothing_is_unpickled() -> None:
    found = {str(path.relative_to(ROOT)): evaluations(path.read_text(encoding="utf-8")) for path in FILES}
    assert {path: calls for path, calls in found.items() if calls} == {
        path: [module] for path, module in ALLOWED_PICKLES.items()
    }


def test_modules_are_imported_by_name_only_where_a_person_gave_it() -> None:
    found = {str(path.relative_to(ROOT)): imports_by_name(path.read_text(encoding="utf-8")) for path in FILES}
    assert {name for name, calls in found.items() if calls} == ALLOWED_IMPORTS.keys(), found


@pytest.mark.parametrize(
    "source",
    [
        "eval(text)",
        "builtins = 1\nexec(text)",
        "compile(text, '', 'eval')",
        "import pickle",
        "import _pickle as json",
        "from joblib import load",
        "from six.moves import cPickle",
        "torch.load(path)",
        "import numpy as np\nnp.load(path)",
        "import torch as t\nload = t.load",
        "from torch.serialization import load as read",
        "yaml.load(x)",
        "yaml.unsafe_load(x)",
        "yaml.full_load(x)",
        "from yaml import load_all",
        "builtins.eval(text)",
        "import builtins as b\nb.eval(text)",
        "from builtins import eval as read",
        "read = eval",
        "map(exec, texts)",
        "getattr(builtins, 'eval')(text)",
        "vars(builtins)['exec'](text)",
    ],
)
def test_what_evaluates_is_seen(source: str) -> None:
    assert evaluations(source)


@pytest.mark.parametrize(
    "source",
    [
        "importlib.import_module(name)",
        "runpy.run_path(path)",
        "pkgutil.resolve_name(name)",
        "from pkgutil import resolve_name as find",
        "find = importlib.import_module",
        "getattr(importlib, 'import_module')(name)",
        "SourceFileLoader(name, path)",
        "entry_points(group='x')[name].load()",
        "for it in metadata.entry_points():\n    it.load()",
        "EntryPoint(name, value, group).load()",
    ],
)
def test_an_import_by_name_is_seen(source: str) -> None:
    assert imports_by_name(source)


@pytest.mark.parametrize(
    "source",
    [
        *("re.compile(text)", "model.eval()", "adapter.load(path)", "Evaluation.load(path)", "compiled['eval_loss']"),
        *("from rlzoo.commands import eval\neval(run)", "yaml.safe_load(text)"),
    ],
)
def test_what_only_looks_like_it_is_not(source: str) -> None:
    assert not evaluations(source) and not imports_by_name(source)
