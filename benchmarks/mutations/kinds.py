"""Which mutations a module's functions have: places in its tree of syntax, and what would be written there instead."""

import ast
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.List, ast.ListComp, ast.GeneratorExp)
"""What needs no parentheses where a call stood."""
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Pow)
TOKENS: dict[type[ast.AST], tuple[bytes, str]] = {
    ast.Add: (rb"\+", "-"),
    ast.Sub: (rb"-", "+"),
    ast.Mult: (rb"\*", "/"),
    ast.Div: (rb"/", "*"),
    ast.FloorDiv: (rb"//", "/"),
    ast.Mod: (rb"%", "*"),
    ast.Pow: (rb"\*\*", "*"),
    ast.BitAnd: (rb"&", "|"),
    ast.BitOr: (rb"\|", "&"),
    ast.Lt: (rb"<", "<="),
    ast.LtE: (rb"<=", "<"),
    ast.Gt: (rb">", ">="),
    ast.GtE: (rb">=", ">"),
    ast.Eq: (rb"==", "!="),
    ast.NotEq: (rb"!=", "=="),
    ast.In: (rb"in", "not in"),
    ast.NotIn: (rb"not\s+in", "in"),
    ast.Is: (rb"is", "is not"),
    ast.IsNot: (rb"is\s+not", "is"),
    ast.And: (rb"and", "or"),
    ast.Or: (rb"or", "and"),
}
"""An operator -> how it is written, and what stands there instead."""


@dataclass(frozen=True)
class Edit:
    """A replacement of the bytes from `start` to `end`."""

    kind: str
    start: int
    end: int
    after: str


@dataclass(frozen=True)
class Source:
    """A module's text, as bytes, as `ast` counts columns."""

    data: bytes

    @cached_property
    def starts(self) -> list[int]:
        """The offset of each line's first byte."""
        return [0, *(match.end() for match in re.finditer(rb"\n", self.data))]

    def line(self, offset: int) -> int:
        return bisect_right(self.starts, offset)

    def start(self, node: Any) -> int:
        return self.starts[int(node.lineno) - 1] + int(node.col_offset)

    def end(self, node: Any) -> int:
        return self.starts[int(node.end_lineno) - 1] + int(node.end_col_offset)

    def text(self, node: Any) -> str:
        return self.data[self.start(node) : self.end(node)].decode()

    def replaced(self, kind: str, node: Any, after: str) -> Edit:
        """An edit of a whole node."""
        return Edit(kind, self.start(node), self.end(node), after)

    def lines(self, start: int, end: int) -> str:
        """The whole lines between which a segment lies."""
        first, after = self.data.rfind(b"\n", 0, start) + 1, self.data.find(b"\n", end)
        return self.data[first : after if after >= 0 else None].decode()

    def edited(self, start: int, end: int, after: str) -> "Source":
        return Source(self.data[:start] + after.encode() + self.data[end:])


def bodies(node: ast.AST) -> Iterator[ast.AST]:
    """The statements of functions and methods, those of inner functions with the outer one's."""
    for child in ast.iter_child_nodes(node):
        yield from child.body if isinstance(child, FUNCTIONS) else bodies(child)


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """A node and what is below it, without annotations, messages and decorators."""
    yield node
    for child in children(node):
        yield from inside(child)


def children(node: ast.AST) -> Iterable[ast.AST]:
    match node:
        case ast.Raise() | ast.JoinedStr():
            return ()
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body]
        case ast.ClassDef():
            return node.body
        case ast.AnnAssign():
            return [node.value] if node.value else ()
        case ast.Assert():
            return [node.test]
        case ast.If(test=ast.Name("TYPE_CHECKING")):
            return node.orelse
        case ast.Expr(ast.Call()):  # what its result is matters to nobody
            return ast.iter_child_nodes(node.value)
        case ast.Call(ast.Name("isinstance" | "issubclass")):
            return node.args[:1]
        case ast.Call(ast.Name("cast")):
            return node.args[1:]
        case ast.Call(ast.Name("zip")):  # `strict=` is there for the linter
            return node.args
    return ast.iter_child_nodes(node)


def is_sequence(node: ast.AST) -> bool:
    """Whether text or a list is written in an operand, with which another operator is a TypeError."""
    match node:
        case ast.BinOp():
            return is_sequence(node.left) or is_sequence(node.right)
        case ast.Constant(str() | bytes()):
            return True
    return isinstance(node, (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp))


def token(source: Source, kind: str, operator: ast.AST, left: ast.AST, right: ast.AST) -> Iterator[Edit]:
    """The edit of the operator between two operands, of whose gap only it, brackets and comments are part."""
    if type(operator) not in TOKENS:
        return
    written, after = TOKENS[type(operator)]
    begin = source.end(left)
    for match in re.finditer(rb"#[^\n]*|(" + written + rb")", source.data[begin : source.start(right)]):
        if match.group(1):
            yield Edit(kind, begin + match.start(), begin + match.end(), after)
            return


def operators(source: Source, node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.BinOp() if not is_sequence(node):
            yield from token(source, "operator", node.op, node.left, node.right)
        case ast.AugAssign() if not is_sequence(node.value):
            yield from token(source, "operator", node.op, node.target, node.value)


def comparisons(source: Source, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
            yield from token(source, "comparison", operator, left, right)


def booleans(source: Source, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.BoolOp):
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield from token(source, "boolean", node.op, left, right)


def constants(source: Source, node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.Constant(bool(value)):
            yield source.replaced("constant", node, str(not value))
        case ast.Constant(int(value)):
            yield source.replaced("constant", node, str(value + 1))
        case ast.Constant(float(value)) if math.isfinite(2 * value):
            yield source.replaced("constant", node, repr(2 * value or 1.0))


def signs(source: Source, node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.UnaryOp(ast.USub()):
            yield source.replaced("sign", node, source.text(node)[1:].lstrip())
        case ast.Return(ast.BinOp(op=op) as value) if isinstance(op, ARITHMETIC) and not is_sequence(value):
            yield source.replaced("sign", value, f"-({source.text(value)})")


def indices(source: Source, node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.Subscript(slice=ast.Constant(int(value)) as index) if value in (0, 1):
            yield source.replaced("index", index, str(1 - value))
        case ast.Subscript(slice=ast.UnaryOp(ast.USub(), ast.Constant(1)) as index):
            yield source.replaced("index", index, "0")
        case ast.Slice():
            for bound in filter(None, (node.lower, node.upper)):
                plain, text = isinstance(bound, (*ATOMS, ast.BinOp, ast.UnaryOp)), source.text(bound)
                yield source.replaced("index", bound, f"{text} + 1" if plain else f"({text}) + 1")


def conditions(source: Source, node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.If(test=ast.Name("TYPE_CHECKING")):
            return
        case ast.If() | ast.While() | ast.IfExp():
            tests = [node.test]
        case ast.comprehension():
            tests = node.ifs
        case _:
            return
    for test in tests:
        yield source.replaced("condition", test, f"not ({source.text(test)})")


def missing_calls(source: Source, node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.Expr(ast.Call()):
            yield source.replaced("missing call", node, "pass")
        case ast.Call(args=[ast.expr() as only], keywords=[]) if not isinstance(only, ast.Starred):
            text = source.text(only)
            yield source.replaced("missing call", node, text if isinstance(only, ATOMS) else f"({text})")
        case ast.Call(ast.Attribute(value=value), args=[], keywords=[]):
            begin, end = source.end(value), source.end(node)
            if called := re.search(rb"\.\s*\w+\s*\(\s*\)$", source.data[begin:end]):
                yield Edit("missing call", begin + called.start(), end, "")


KINDS: tuple[Callable[[Source, ast.AST], Iterator[Edit]], ...] = (
    *(operators, comparisons, booleans, indices, signs, constants, conditions, missing_calls),
)


def edits(source: Source, executed: set[int]) -> dict[int, list[Edit]]:
    """Line that ran -> its edits, each once, in the order of the text."""
    tree, found = ast.parse(source.data), dict[tuple[int, int, str], Edit]()
    for node in (node for statement in bodies(tree) for node in inside(statement)):
        for edit in (edit for kind in KINDS for edit in kind(source, node)):
            found.setdefault((edit.start, edit.end, edit.after), edit)
    lines: dict[int, list[Edit]] = {}
    for place in sorted(found):
        if (line := source.line(place[0])) in executed:
            lines.setdefault(line, []).append(found[place])
    return lines


def parses(source: Source, edit: Edit) -> bool:
    with suppress(SyntaxError):
        ast.parse(source.edited(edit.start, edit.end, edit.after).data)
        return True
    return False
