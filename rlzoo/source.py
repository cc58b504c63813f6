"""The digest of source code: tells an edited method, reward or task from the one that a run was made with.

Code counts as `ast.unparse` writes it, without comments, docstrings and layout. In the file that defines a name, what
the name uses counts; of each further file of the user that is imported from there, everything. Data that code reads,
and installed packages, do not count. Nothing is imported here.
"""

import ast
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from rlzoo.errors import UserError

EVERYTHING = "*"
"""Stands for every name of a file."""
_OURS = ("objectives", "rlzoo")
_LIBRARIES = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_BY_NAME_AT_RUNTIME = frozenset({"globals", "locals", "vars", "eval", "exec"})
"""Functions that find definitions which no statement mentions."""
_CALLS = ("train", "evaluate", "compare", "leaderboard", "inspect", "map_objectives", "run_suite")
"""The functions of rlzoo at which a script that is read for its definitions ends."""
_imported: dict[tuple[Path, str], tuple[Any, str]] = {}
"""File and name -> the module's spec and the digest that this process met first."""


def digest(texts: Iterable[str]) -> str:
    """Digest of texts in their order."""
    return blake2b("\0".join(texts).encode(), digest_size=8).hexdigest()


def normalised(tree: ast.AST) -> str:
    """Code without comments and docstrings, which the tree loses."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [line for line in body if not _is_text(line)] or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.unparse(tree)


def is_ours(module: str) -> bool:
    """Whether a module is of this project, whose version says what it is."""
    return module.partition(".")[0] in _OURS


@dataclass(frozen=True)
class Definition:
    """Where a name from outside is defined."""

    file: Path
    module: str
    """Dotted; empty for a file that is named by its path."""
    name: str

    @property
    def root(self) -> Path:
        """The folder from which its module is imported."""
        depth = self.module.count(".") + (self.file.stem == "__init__")
        return self.file.parents[depth]


def used_source(start: Definition) -> dict[Path, str]:
    """File -> digest, for every file of the user that a definition uses.

    Raises UserError for a file that was edited since this process imported it: which code runs is then not known.
    """
    walk = _Walk(start)
    digests = {path: digest([normalised(ast.Module(body, []))]) for path, body in walk.follow().items() if body}
    for path, text in digests.items():
        name = walk.modules[path]
        spec = getattr(sys.modules.get(name), "__spec__", None)
        first_spec, first = _imported.get((path, start.name), (spec, text))
        if spec is not None and first_spec is spec and first != text:
            raise UserError(
                f"{path} has been edited since this Python imported it; importlib.reload({name}) runs the new code, "
                f"and so does starting Python again"
            )
        if spec is not None:
            _imported[path, start.name] = spec, text
    return dict(sorted(digests.items()))


def relative_names(paths: Iterable[Path], root: Path) -> dict[Path, str]:
    """File -> how it is called from a folder."""
    return {path: Path(os.path.relpath(path, root)).as_posix() for path in paths}


def code_digest(made: type) -> str:
    """Digest of a class that no file defines, as in a notebook: its methods' compiled code and what they use."""
    seen, waiting, texts = set[int](), [made], list[str]()
    while waiting:
        value: Any = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, type):
            waiting += [base for base in value.__mro__[1:] if base.__module__ == made.__module__]
            waiting += [member for name, member in sorted(vars(value).items()) if not name.startswith("__")]
        elif isinstance(value, FunctionType) and value.__module__ == made.__module__:
            texts += _compiled(value.__code__)
            waiting += [value.__globals__[name] for name in value.__code__.co_names if name in value.__globals__]
        elif isinstance(value, bool | int | float | str | tuple | frozenset):
            texts.append(repr(value))
    return digest(texts)


def _compiled(code: CodeType) -> Iterator[str]:
    plain = [constant for constant in code.co_consts if not isinstance(constant, CodeType)]
    yield f"{code.co_code.hex()} {code.co_names} {plain}"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _compiled(constant)


# ---- the statements of a file ----------------------------------------------------------------------------------------


def _statements(path: Path, name: str = EVERYTHING) -> list[ast.stmt]:
    """The statements of a file that count, all or those that a name uses; a script ends at its first call of rlzoo."""
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return ast.parse(f"unreadable = {text!r}").body
    calls, kept = _calls_of_ours(body), list[ast.stmt]()
    for node in body:
        called = _called(node.value) if isinstance(node, ast.Expr | ast.Assign) else ""
        if called in calls:
            break
        is_recipe = isinstance(node, ast.Expr) and called.rpartition(".")[2] == "recipe"  # its objective's key says it
        if not (_is_text(node) or _is_main(node) or is_recipe):
            kept.append(node)
    return _used(kept, name, _mentions(body))


def _used(statements: Sequence[ast.stmt], name: str, mentioned: Set[str]) -> list[ast.stmt]:
    """The statements without definitions, imports and assignments that a name does not use, directly or through others.

    What nothing mentions in the whole file is there for its effect, and counts.
    """
    if not any(name in _bound(node) for node in statements):
        return list(statements)
    wanted, count = {name}, 0
    while len(wanted) > count:
        count = len(wanted)
        kept = [node for node in statements if _bound(node) & wanted or not _is_optional(node, mentioned)]
        wanted |= _mentions(kept)
    return list(statements) if wanted & _BY_NAME_AT_RUNTIME else kept


def _is_optional(node: ast.stmt, mentioned: Set[str]) -> bool:
    """Whether it does no more than bind names that the file mentions, or defines something."""
    return isinstance(node, _DEFINES) or bool(_bound(node) & mentioned)


_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _bound(node: ast.stmt) -> set[str]:
    """The names that a definition, an import or an assignment of plain names binds; none of any other statement."""
    if isinstance(node, _DEFINES):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.partition(".")[0] for alias in node.names} - {EVERYTHING}
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        return set(names) if len(names) == len(targets) else set()
    return set()


def _mentions(statements: Sequence[ast.stmt]) -> set[str]:
    """The names that statements read, and texts, which may be names."""
    nodes = [node for statement in statements for node in ast.walk(statement)]
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    names = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return texts | names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def _calls_of_ours(body: Sequence[ast.stmt]) -> set[str]:
    """How a script may call rlzoo: `rlzoo.train`, or `train` if that is imported from it."""
    names = set[str]()
    for node in body:
        if isinstance(node, ast.Import):
            ours = [alias.asname or alias.name for alias in node.names if alias.name == "rlzoo"]
            names |= {f"{name}.{call}" for name in ours for call in _CALLS}
        elif isinstance(node, ast.ImportFrom) and node.module == "rlzoo":
            names |= {alias.asname or alias.name for alias in node.names if alias.name in _CALLS}
    return names


def _called(value: ast.AST | None) -> str:
    """`train` or `rlzoo.train` of a call, also of what is taken of its result; empty for anything else."""
    while isinstance(value, ast.Attribute | ast.Subscript):
        value = value.value
    return ast.unparse(value.func) if isinstance(value, ast.Call) else ""


def _is_text(line: Any) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)


def _is_main(node: ast.stmt) -> bool:
    """Whether it is `if __name__ == "__main__":`."""
    return isinstance(node, ast.If) and "__name__" in (test := ast.unparse(node.test)) and "__main__" in test


# ---- from file to file -----------------------------------------------------------------------------------------------


@dataclass
class _Walk:
    """The files that a definition uses."""

    start: Definition
    modules: dict[Path, str] = field(default_factory=dict)
    """The dotted name of each file's module."""

    def follow(self) -> dict[Path, list[ast.stmt]]:
        """File -> the statements that count."""
        found: dict[Path, list[ast.stmt]] = {}
        waiting = [(self.start.file, self.start.module), *self._files(self.start.module)]
        while waiting:
            path, module = waiting.pop()
            if path not in found:
                self.modules[path] = module
                found[path] = _statements(path, self.start.name if path == self.start.file else EVERYTHING)
                waiting += [file for name in _imports(found[path], path, module) for file in self._files(name)]
        return found

    def _files(self, module: str) -> Iterator[tuple[Path, str]]:
        """The user's files that the import of a module runs: its packages' and its own."""
        parts = module.split(".")
        names = [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
        yield from ((path, name) for name in names if (path := self._file(name)) is not None)

    def _file(self, module: str) -> Path | None:
        parts = module.split(".")
        if not module or is_ours(module):
            return None
        loaded = getattr(sys.modules.get(module), "__file__", None)
        ends = (Path(*parts[:-1], f"{parts[-1]}.py"), Path(*parts, "__init__.py"))
        places = [Path(loaded)] if loaded else [root / end for root in (self.start.root, Path.cwd()) for end in ends]
        resolved = [place.resolve() for place in places if place.suffix == ".py" and place.is_file()]
        return next((path for path in resolved if self._is_users(path, parts[0])), None)

    def _is_users(self, path: Path, package: str) -> bool:
        """Whether a file lies below the user's folders and is of no library, or is of the same package as the start."""
        if package == self.start.module.partition(".")[0]:
            return True
        return any(map(path.is_relative_to, (self.start.root, Path.cwd()))) and not any(
            map(path.is_relative_to, _LIBRARIES)
        )


def _imports(statements: Sequence[ast.stmt], path: Path, module: str) -> Iterator[str]:
    """The whole names of what statements of a file import: `a.b` of `from a import b`, which may be a module."""
    for node in (node for statement in statements for node in ast.walk(statement)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = module.split(".")
            kept = len(package) - node.level + (path.stem == "__init__")
            name = ".".join([*(package[:kept] if node.level else []), *filter(None, [node.module])])
            yield from (f"{name}.{alias.name}" if name else alias.name for alias in node.names)
