"""The library's public names, each with its signature and its docstring."""

import ast
import dataclasses
import inspect
import textwrap
from pathlib import Path
from typing import Any

from links import write_changed
from method_pages import docstring

import objectives
import rlzoo

PAGES = {"rlzoo": rlzoo, "objectives": objectives}


def write(folder: Path) -> None:
    """Writes a page for each package."""
    for name, package in PAGES.items():
        write_changed(folder / f"interface_{name}.md", page(name, package))


def page(name: str, package: Any) -> str:
    """Every public name of a package."""
    pieces = [f"# {name} from Python", docstring(inspect.getdoc(package) or "")]
    for public in sorted(package.__all__, key=str.lower):
        pieces += entry(public, getattr(package, public), "##")
    return "\n\n".join(piece for piece in pieces if piece) + "\n"


def entry(name: str, value: Any, heading: str) -> list[str]:
    """A name with its signature, its docstring, and what a class has. Raises ValueError for one without a docstring."""
    doc = inspect.getdoc(value)
    if not doc:
        raise ValueError(f"{name} has no docstring")
    if not callable(value):
        return [f"{heading} {name}", docstring(doc)]
    pieces = [f"{heading} {name}", f"```python\n{signature(name, value)}\n```", docstring(doc)]
    if not inspect.isclass(value):
        return pieces
    return [*pieces, *fields(value), *(piece for member in members(value) for piece in entry(*member, f"{heading}#"))]


def signature(name: str, value: Any) -> str:
    """How it is called, one parameter a line where it is long."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    line = f"{name}{found}".replace("typing.", "")
    if len(line) <= 80:
        return line
    inside = ",\n".join(textwrap.indent(str(it), "    ") for it in found.parameters.values())
    returned = (
        "" if found.return_annotation is found.empty else f" -> {inspect.formatannotation(found.return_annotation)}"
    )
    return f"{name}(\n{inside},\n){returned}".replace("typing.", "")


def members(value: type[Any]) -> list[tuple[str, Any]]:
    """The public methods and properties that a class defines itself, and says something of."""
    own = [(name, getattr(it, "__func__", it)) for name, it in vars(value).items() if not name.startswith("_")]
    found = [(name, it.fget if isinstance(it, property) else getattr(it, "func", it)) for name, it in own]
    return [(name, it) for name, it in found if inspect.isfunction(it) and inspect.getdoc(it)]


def fields(value: type[Any]) -> list[str]:
    """The fields of a dataclass with what stands below them."""
    if not dataclasses.is_dataclass(value):
        return []
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(value))).body
    assert isinstance(body, ast.ClassDef)
    lines = []
    for field, below in zip(body.body, [*body.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            is_said = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            said = " ".join(str(below.value.value).split()) if is_said else ""
            lines.append(
                f"- `{field.target.id}: {ast.unparse(field.annotation)}`" + (f": {docstring(said)}" if said else "")
            )
    return ["\n".join(lines)] if lines else []
