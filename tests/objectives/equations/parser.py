"""Expressions of printed equations: conditions, sums, products, functions, `X where C, Y elsewhere`."""

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Value = Any
"""A number, or a tensor that broadcasts to [N, T]."""

_TOKEN = re.compile(r"\s*(\d+(?:\.\d+)?(?:e[+-]?\d+)?|<=|>=|[A-Za-z_][A-Za-z_0-9]*|[-+*/()\[\],<>|^])")


class Parser:
    """Recursive descent over conditions, sums, products and what stands beside each other, which is a product too."""

    def __init__(self, text: str, names: dict[str, Value]) -> None:
        self.text, self.names, self.tokens = text, names, []
        at, text = 0, text.strip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ValueError(f"cannot read {text[at:]!r} in {self.text!r}")
            self.tokens.append(match[1])
            at = match.end()
        self.at = 0

    def whole(self) -> Value:
        value = self.piecewise()
        if self.at < len(self.tokens):
            raise ValueError(f"cannot read {' '.join(self.tokens[self.at :])!r} in {self.text!r}")
        return value

    def next(self, *choices: str) -> bool:
        """Whether the next tokens are these; takes them."""
        there = tuple(self.tokens[self.at : self.at + len(choices)]) == choices
        self.at += len(choices) * there
        return there

    def list_of_pieces(self) -> list[tuple[Value, Value]]:
        """(value, condition or None), separated by commas."""
        pieces = []
        while True:
            value, condition = self.condition(), None
            if self.next("where"):
                condition = self.condition()
            else:
                self.next("elsewhere")
            pieces.append((value, condition))
            if not self.next(","):
                return pieces

    def piecewise(self) -> Value:
        return _joined(self.list_of_pieces())

    def condition(self) -> Value:
        value = self.conjunction()
        while self.next("or"):
            value = value | self.conjunction()
        return value

    def conjunction(self) -> Value:
        value = self.negation()
        while self.next("and"):
            value = value & self.negation()
        return value

    def negation(self) -> Value:
        return ~self.negation() if self.next("not") else self.comparison()

    def comparison(self) -> Value:
        left, truth = self.sum(), None
        while self.at < len(self.tokens) and self.tokens[self.at] in ("<", ">", "<=", ">="):
            sign = self.tokens[self.at]
            self.at += 1
            right = self.sum()
            here = {"<": left < right, ">": left > right, "<=": left <= right, ">=": left >= right}[sign]
            left, truth = right, here if truth is None else truth & here
        return left if truth is None else truth

    def sum(self) -> Value:
        value = -self.product() if self.next("-") else self.product()
        while self.at < len(self.tokens) and self.tokens[self.at] in "+-":
            sign = self.tokens[self.at]
            self.at += 1
            value = value + self.product() if sign == "+" else value - self.product()
        return value

    def product(self) -> Value:
        value = self.power()
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            if self.next("*"):
                value = value * self.power()
            elif self.next("/"):
                value = quotient(value, self.power())
            elif token == "(" or (token[0].isalnum() and token not in ("where", "elsewhere", "and", "or", "not")):
                value = value * self.power()
            else:
                return value
        return value

    def power(self) -> Value:
        value = self.factor()
        return value * value if self.next("^", "2") else value

    def factor(self) -> Value:
        token = self.tokens[self.at]
        self.at += 1
        if token[0].isdigit():
            return float(token)
        if token == "(":
            value = self.piecewise()
            self.expect(")")
            return value
        if token == "|":
            value = self.sum()
            self.expect("|")
            return value.abs()
        if token in _FUNCTIONS and self.next("["):
            value = self.piecewise()
            self.expect("]")
            return _FUNCTIONS[token](value)
        if token in _FUNCTIONS and self.next("("):
            pieces = self.list_of_pieces()
            self.expect(")")
            if any(condition is not None for _, condition in pieces):
                return _FUNCTIONS[token](_joined(pieces))
            return _FUNCTIONS[token](*(value for value, _ in pieces))
        if token not in self.names:
            raise ValueError(f"nothing is known of {token!r} in {self.text!r}")
        return self.names[token]

    def expect(self, token: str) -> None:
        if not self.next(token):
            raise ValueError(f"{token} is missing at {' '.join(self.tokens[self.at :])!r} in {self.text!r}")


def _joined(pieces: list[tuple[Value, Value]]) -> Value:
    """`X where C, Y where D, Z elsewhere`; a value before all conditions stands elsewhere, and so does 0."""
    if len(pieces) == 1 and pieces[0][1] is None:
        return pieces[0][0]
    value: Value = next((value for value, condition in pieces if condition is None), 0.0)
    for piece, condition in reversed([piece for piece in pieces if piece[1] is not None]):
        value = torch.where(condition, torch.as_tensor(piece).double(), torch.as_tensor(value).double())
    return value


def quotient(above: Value, below: Value) -> Value:
    if not isinstance(below, Tensor):
        return above / below if below else 0.0
    zero = below == 0
    return torch.where(zero, 0.0, above / torch.where(zero, 1.0, below))


def _both(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Value, Value], Value]:
    return lambda first, second: function(torch.as_tensor(first).double(), torch.as_tensor(second).double())


def clipped(value: Value, low: Value, high: Value) -> Value:
    return _FUNCTIONS["min"](_FUNCTIONS["max"](value, low), high)


def _above(value: Tensor, least: float) -> Tensor:
    """max_v: the value is clipped, its gradient stays."""
    return value - value.detach() + value.detach().clamp(min=least)


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "min": _both(torch.minimum),
    "max": _both(torch.maximum),
    "max_v": _above,
    "clip": clipped,
    "exp": lambda value: torch.as_tensor(value).double().exp(),
    "log": lambda value: value.log(),
    "sqrt": lambda value: torch.as_tensor(value).double().sqrt(),
    "sign": torch.sign,
    "sigmoid": torch.sigmoid,
    "square": torch.square,
    "abs": torch.abs,
    "k2": lambda difference: difference.square() / 2,
    "sg": lambda value: value.detach(),
}
