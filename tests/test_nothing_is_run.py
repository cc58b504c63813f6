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
LOADS = {"torch.load", "numpy.load", "np.load", "pandas.read_pickle", "pd.read_pickle", "yaml.load", "yaml.unsafe_load"}
IMPORTS = {
    *("import_module", "run_path", "run_module", "spec_from_file_location", "load_module", "exec_module"),
    *("resolve_name", "find_loader", "find_module", "zipimporter", "SourceFileLoader", "iter_modules", "walk_packages"),
}
ENTRY_POINTS = {"entry_points", "EntryPoint"}
"""What has a `load` that imports."""
ALLOWED_IMPORTS = {
    "objectives/definitions.py": "part of an expression that a person typed, or a file that is trusted",
    "objectives/adapters/package.py": "seams of a peer's, written beside it",
    "objectives/peers/installed.py": "trl, verl and omegaconf, by a person who makes their tables",
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
ALLOWED_PICKLES = {"rlzoo/tasks/sandbox.py": "what this process asks a worker, read there; answers are JSON"}


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


def mentioned(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Each name as it is read, called or not, with the dots before it; and what is imported from elsewhere by name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
            yield dotted(node) or getattr(node, "attr", ""), node.lineno
        elif isinstance(node, ast.ImportFrom):
            yield from ((f"{node.module or ''}.{name.name}", node.lineno) for name in node.names)


def evaluations(source: str) -> list[str]:
    """What of a source evaluates text, unpickles, or loads what may be a pickle."""
    tree = ast.parse(source)
    ours = set(modules_of_ours(tree))
    found = [f"{name} in line {line}" for name, line in mentioned(tree) if _evaluates(name) and name not in ours]
    found += [f"{text} in line {line}" for text, line in looked_up(tree) if text in EVALUATES]
    return [*found, *(name for name in imported(tree) if name.partition(".")[0] in UNPICKLES)]


def modules_of_ours(tree: ast.AST) -> Iterator[str]:
    """What a source imports of the two packages, and may be called as a builtin is: the command eval."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in ("rlzoo", "objectives"):
            yield from (name.asname or name.name for name in node.names)


def _evaluates(name: str) -> bool:
    whole = name.removeprefix("builtins.").removeprefix("__builtins__.")
    return whole in EVALUATES | LOADS


def looked_up(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The texts by which something is looked up: `getattr(builtins, "eval")`, `vars(builtins)["eval"]`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and dotted(node.func) == "getattr":
            keys = node.args[1:2]
        elif isinstance(node, ast.Subscript):
            keys = [node.slice]
        else:
            continue
        yield from (
            (key.value, key.lineno) for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)
        )


def imports_by_name(source: str) -> list[str]:
    """Where a source imports what a text names."""
    tree = ast.parse(source)
    names = {name for name, _ in mentioned(tree)}
    loads = ENTRY_POINTS & {name.split(".")[-1] for name in names}
    found = [f"{name} in line {line}" for name, line in mentioned(tree) if name.split(".")[-1] in IMPORTS]
    found += [f"{text} in line {line}" for text, line in looked_up(tree) if text in IMPORTS]
    return [*found, *(f"{name} and load" for name in loads if any(it.split(".")[-1] == "load" for it in names))]


def test_no_text_is_evaluated_and_nothing_is_unpickled() -> None:
    found = {str(path.relative_to(ROOT)): evaluations(path.read_text(encoding="utf-8")) for path in FILES}
    assert {path: calls for path, calls in found.items() if calls} == {path: ["pickle"] for path in ALLOWED_PICKLES}


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
        "builtins.eval(text)",
        "from builtins import eval as read",
        "read = eval",
        "map(exec, texts)",
        "getattr(builtins, 'eval')(text)",
        "vars(builtins)['exec'](text)",
        "load = torch.load",
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
        "entry_points(group='x')[name].load()",
        "for it in metadata.entry_points():\n    it.load()",
        "EntryPoint(name, value, group).load()",
    ],
)
def test_an_import_by_name_is_seen(source: str) -> None:
    assert imports_by_name(source)


@pytest.mark.parametrize(
    "source",
    ["re.compile(text)", "model.eval()", "adapter.load(path)", "Evaluation.load(path)", "compiled['eval_loss']"],
)
def test_what_only_looks_like_it_is_not(source: str) -> None:
    assert not evaluations(source) and not imports_by_name(source)
