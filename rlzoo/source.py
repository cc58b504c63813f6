"""The digest of source code: what tells an edited method, reward or task from the one that a run was made with.

Code counts as `ast.unparse` writes it, without comments, docstrings and layout. `used_source` follows a name through a
user's files: its definition, what that mentions in its file, and what these import from other files of the user. So a
second method in a file, or a note, changes no digest; data that code reads are no part of it. Nothing is imported here.
"""

import ast
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
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
"""What finds definitions that no statement mentions: who uses it may use all."""
_imported: dict[tuple[Path, frozenset[str]], tuple[Any, str]] = {}
"""File and names -> the module's spec and the digest that this process met first."""


def digest(texts: Iterable[str]) -> str:
    """Of texts in their order."""
    return blake2b("\0".join(texts).encode(), digest_size=8).hexdigest()


def normalised(tree: ast.AST) -> str:
    """Code without comments and docstrings, which the tree loses."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [line for line in body if not _is_text(line)] or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.unparse(tree)


def is_ours(module: str) -> bool:
    """Whether it is of this project, whose versions say what it is."""
    return module.partition(".")[0] in _OURS


def _is_text(line: Any) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)


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
    """File -> digest of what the name uses of it, for every file of the user that it uses.

    Raises UserError if one was edited since this process imported it, as nobody knows then which code is run.
    """
    walk = _Walk(start)
    walk.follow()
    used = {path: [statement.text for statement in walk.kept(path)] for path in sorted(walk.wanted)}
    digests = {path: digest(texts) for path, texts in used.items() if texts}
    for path, text in digests.items():
        module = sys.modules.get(walk.names[path])
        if module is None:
            continue
        key, spec = (path, frozenset(walk.wanted[path])), getattr(module, "__spec__", None)
        before_spec, before = _imported.get(key, (spec, text))
        if before_spec is spec and before != text:
            raise UserError(
                f"{path} has been edited since this Python imported it; importlib.reload({walk.names[path]}) has it "
                f"run the new code, and so does starting Python again"
            )
        _imported[key] = spec, text
    return digests


def code_digest(made: type) -> str:
    """Of a class that no file defines, as in a notebook: its methods' compiled code and what these use beside it."""
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


# ---- a file ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Import:
    module: str
    """With a dot for each level that it is relative by."""
    names: frozenset[str]


@dataclass(frozen=True)
class _Statement:
    """A statement at the top of a file."""

    text: str
    binds: frozenset[str]
    """The names that it defines; it counts where one of them is used. Empty if it counts always."""
    mentions: frozenset[str]
    imports: Sequence[_Import]


def _statements(text: str) -> list[_Statement]:
    """Those of a file that may count. A file that cannot be parsed is one statement."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return [_Statement(text, frozenset(), frozenset(), ())]
    defined = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    calls = _names_of_ours(body)
    kept = []
    for node in body:
        if isinstance(node, ast.Expr | ast.Assign) and _called(node.value) in calls:
            break  # a script is read up to its first call of rlzoo
        is_recipe = isinstance(node, ast.Expr) and _called(node.value).rpartition(".")[2] == "recipe"
        if _is_text(node) or _is_main(node) or _bound(node) == {"__all__"} or (is_recipe and "recipe" not in defined):
            continue  # what a recipe means stands in its objective's key
        kept.append(node)
    mentioned = frozenset[str]().union(*map(_mentions, body))
    return [_with_effect(node, _statement(node), mentioned) for node in kept]


def _statement(node: ast.stmt) -> _Statement:
    text = normalised(ast.Module([node], []))
    return _Statement(
        text, _bound(node), _mentions(node), [imported for child in ast.walk(node) for imported in _imports(child)]
    )


def _mentions(node: ast.stmt) -> frozenset[str]:
    """The names that a statement uses; of an assignment, those that its value does."""
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) and _bound(node) else node
    inside = [] if value is None else list(ast.walk(value))
    mentions = {inner.id for inner in inside if isinstance(inner, ast.Name)}
    mentions |= {inner.attr for inner in inside if isinstance(inner, ast.Attribute)}
    mentions |= {inner.value for inner in inside if isinstance(inner, ast.Constant) and isinstance(inner.value, str)}
    return frozenset(mentions)


def _bound(node: ast.stmt) -> frozenset[str]:
    """What a statement that does no more than define names defines; empty for every other."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return frozenset({node.name})
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        return frozenset() if EVERYTHING in names else frozenset(names)
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = {target.id for target in targets if isinstance(target, ast.Name)}
        return frozenset(names) if len(names) == len(targets) else frozenset()
    return frozenset()


def _imports(node: ast.AST) -> Iterator[_Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield _Import(alias.name, frozenset({EVERYTHING}))
    elif isinstance(node, ast.ImportFrom):
        yield _Import("." * node.level + (node.module or ""), frozenset(alias.name for alias in node.names))


def _with_effect(node: ast.stmt, statement: _Statement, mentioned: frozenset[str]) -> _Statement:
    """`import module`, or `name = call()`, whose name nothing mentions is there for what it does, and counts always."""
    acts = isinstance(node, ast.Import | ast.Assign) and not statement.binds & mentioned
    return replace(statement, binds=frozenset()) if acts else statement


def _names_of_ours(body: Sequence[ast.stmt]) -> set[str]:
    """How a script may call rlzoo: `rlzoo.train`, or `train` if that is imported from it."""
    names = set[str]()
    for node in body:
        if isinstance(node, ast.Import):
            ours = [alias.asname or alias.name for alias in node.names if alias.name == "rlzoo"]
            names |= {f"{name}.{call}" for name in ours for call in _CALLS}
        elif isinstance(node, ast.ImportFrom) and node.module == "rlzoo":
            names |= {alias.asname or alias.name for alias in node.names if alias.name in _CALLS}
    return names


_CALLS = ("train", "evaluate", "compare", "leaderboard", "inspect", "choose", "map_objectives", "run_suite")
"""The functions of rlzoo at which a script that is read for its definitions ends."""


def _called(value: ast.AST | None) -> str:
    """`train` or `rlzoo.train` of a call, also of what is taken of its result; empty for what is no call."""
    while isinstance(value, ast.Attribute | ast.Subscript):
        value = value.value
    return ast.unparse(value.func) if isinstance(value, ast.Call) else ""


def _is_main(node: ast.stmt) -> bool:
    """Whether it is `if __name__ == "__main__":`."""
    return isinstance(node, ast.If) and "__name__" in (test := ast.unparse(node.test)) and "__main__" in test


# ---- from file to file -----------------------------------------------------------------------------------------------


@dataclass
class _Walk:
    """The files that a definition uses, and the names that are wanted of each."""

    start: Definition
    wanted: dict[Path, set[str]] = field(default_factory=dict)
    names: dict[Path, str] = field(default_factory=dict)
    """The dotted name of each file's module."""
    files: dict[Path, list[_Statement]] = field(default_factory=dict)

    def follow(self) -> None:
        """Until no file is wanted for more."""
        waiting = [(self.start.file, self.start.module, frozenset({self.start.name}))]
        waiting += [(path, name, frozenset[str]()) for path, name in self._packages(self.start.module)]
        while waiting:
            path, module, names = waiting.pop()
            if path in self.wanted and names <= self.wanted[path]:
                continue
            self.names.setdefault(path, module)
            self.wanted.setdefault(path, set()).update(names)
            for statement in self.kept(path):
                for imported in statement.imports:
                    waiting += self._imported(imported, path)

    def kept(self, path: Path) -> list[_Statement]:
        """The statements of a file that count for the names that are wanted of it."""
        if path not in self.files:
            self.files[path] = _statements(path.read_text(encoding="utf-8", errors="replace"))
        statements, names = self.files[path], self.wanted[path]
        defined = frozenset[str]().union(*(statement.binds for statement in statements))
        always = [statement for statement in statements if not statement.binds]
        mentioned = names.union(*(statement.mentions for statement in always))
        if not names <= defined or mentioned & _BY_NAME_AT_RUNTIME:
            return statements
        while True:
            kept = [statement for statement in statements if not statement.binds or statement.binds & mentioned]
            more = mentioned.union(*(statement.mentions for statement in kept))
            if more & _BY_NAME_AT_RUNTIME:
                return statements
            if more == mentioned:
                return kept
            mentioned = more

    def _imported(self, imported: _Import, path: Path) -> Iterator[tuple[Path, str, frozenset[str]]]:
        module = self._absolute(imported.module, path)
        for package, name in self._packages(module):
            yield package, name, frozenset()
        file = self._file(module)
        rest = set(imported.names)
        for name in imported.names:
            if (inside := self._file(f"{module}.{name}")) is not None:
                rest.discard(name)
                yield inside, f"{module}.{name}", frozenset({EVERYTHING})
        if file is not None:
            yield file, module, frozenset(rest)

    def _absolute(self, module: str, path: Path) -> str:
        """The dotted name of what a file imports."""
        name = module.lstrip(".")
        if name == module:
            return module
        package = self.names[path].split(".")
        up = len(module) - len(name) - (path.stem == "__init__")
        return ".".join([*package[: len(package) - up], *filter(None, [name])])

    def _packages(self, module: str) -> Iterator[tuple[Path, str]]:
        """The packages around a module, which Python runs before it."""
        parts = module.split(".")
        for end in range(1, len(parts)):
            name = ".".join(parts[:end])
            if (path := self._file(name)) is not None:
                yield path, name

    def _file(self, module: str) -> Path | None:
        """That of a module, if it is the user's."""
        parts = module.split(".")
        if not module or is_ours(module):
            return None
        loaded = getattr(sys.modules.get(module), "__file__", None)
        ends = (Path(*parts[:-1], f"{parts[-1]}.py"), Path(*parts, "__init__.py"))
        places = [Path(loaded)] if loaded else [root / end for root in self._roots for end in ends]
        return next(
            (place.resolve() for place in places if place.is_file() and self._is_users(place.resolve(), parts[0])), None
        )

    @cached_property
    def _roots(self) -> tuple[Path, Path]:
        return self.start.root, Path.cwd()

    def _is_users(self, path: Path, package: str) -> bool:
        """Whether a file lies below the user's folders and is of no library, or is of the same package as the start."""
        if path.suffix != ".py" or package == self.start.module.partition(".")[0]:
            return path.suffix == ".py"
        return any(map(path.is_relative_to, self._roots)) and not any(map(path.is_relative_to, _LIBRARIES))


def labelled(digests: Mapping[Path, str], root: Path) -> dict[str, str]:
    """With each file as it is called from a folder."""
    return {Path(os.path.relpath(path, root)).as_posix(): text for path, text in digests.items()}
