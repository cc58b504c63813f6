r"""Sums that a small model can do, products that it cannot, and a calculator that it may call.

    123*45=   <tool_call>{"name": "calculate", "arguments": {"expression": "123*45"}}</tool_call>   5535
    \-----/   \------------------------------- first turn --------------------------------------/   \--/
     prompt                                                                                    second turn

Two in three problems are products of numbers of two or three digits; the others are sums of numbers of one or two.
Nothing tells the model when to call, and a call costs nothing.

**Splits.** A hash of the prompt holds out one problem in eight, as in `arithmetic`.

**Grade.** The last turn must be the answer to its last character.

**Demonstrations** call for three in ten products and one in ten sums, and answer the others at once. Characters of
calls and digits of answers slip, so that a call may ask for something else, or be an error.
"""

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from rlzoo.errors import UserError
from rlzoo.tasks.arithmetic import HELD_OUT_PROBLEMS, distinct, slipped
from rlzoo.tasks.base import ExactGrader, Grader, Problem
from rlzoo.tasks.outside import described
from rlzoo.tasks.text import is_held_out

CALL_BEGINS, CALL_ENDS = '<tool_call>{"name": "calculate", "arguments": {"expression": "', '"}}</tool_call>'
CALL_RATES = {"*": 0.3, "+": 0.1}
"""How many of the demonstrations call, by the problem's sign."""
PRODUCTS = 2 / 3
LONGEST, MOST_DIGITS = 100, 20
"""Characters of an expression, and digits of a number in it, that `calculate` takes."""

_MOST_PROBLEMS = 300_000
_HELD_OUT_SEED, _TRAIN_SEED = 0, 1
_ANSWER = re.compile(r"-?[0-9]+")
_TOKEN = re.compile(r"[0-9]+|\S")
_SLIPS = "0123456789+-*()"


def calculate(expression: str) -> int:
    """Calculates with whole numbers.

    Args:
        expression: sums, differences and products, such as 3*(4+5).
    """
    if len(expression) > LONGEST:
        raise ValueError(f"an expression has at most {LONGEST} characters")
    reader = _Reader([(match[0], match.start() + 1) for match in _TOKEN.finditer(expression)])
    value = reader.sum()
    if reader.next:
        raise reader.unexpected("an operator")
    return value


@dataclass
class _Reader:
    """Reads tokens by the grammar

    sum = product (("+" | "-") product)*
    product = factor ("*" factor)*
    factor = number | "-" factor | "(" sum ")"
    """

    tokens: Sequence[tuple[str, int]]
    """Each with the position of its first character, from 1."""
    done: int = 0

    @property
    def next(self) -> str:
        """The next token; empty at the end."""
        return self.tokens[self.done][0] if self.done < len(self.tokens) else ""

    def taken(self, *wanted: str) -> str:
        """The next token, which is passed over if it is wanted; empty if it is not."""
        token = self.next if self.next in wanted else ""
        self.done += bool(token)
        return token

    def sum(self) -> int:
        value = self.product()
        while sign := self.taken("+", "-"):
            value += self.product() if sign == "+" else -self.product()
        return value

    def product(self) -> int:
        value = self.factor()
        while self.taken("*"):
            value *= self.factor()
        return value

    def factor(self) -> int:
        if self.taken("-"):
            return -self.factor()
        if self.taken("("):
            value = self.sum()
            if not self.taken(")"):
                raise self.unexpected("a closing bracket")
            return value
        number = self.next
        if not (number.isascii() and number.isdigit()):
            raise self.unexpected("a number")
        if len(number) > MOST_DIGITS:
            raise ValueError(f"a number has at most {MOST_DIGITS} digits")
        self.done += 1
        return int(number)

    def unexpected(self, wanted: str) -> ValueError:
        """That something else stands where this was wanted."""
        place = f"at position {self.tokens[self.done][1]}" if self.next else "at the end"
        return ValueError(f"{wanted} is missing {place}")


@dataclass(frozen=True)
class Calculator:
    """The task. Raises UserError for more training problems than there are."""

    problems: int = 20_000
    wrong_reward: float = 0.0

    name = "calculator"
    characters = _SLIPS + "=:"
    tools: ClassVar[tuple[str, ...]] = ("rlzoo.tasks.calculator:calculate",)
    pieces: ClassVar[tuple[str, ...]] = (CALL_BEGINS, CALL_ENDS)

    def __post_init__(self) -> None:
        if not 1 <= self.problems <= _MOST_PROBLEMS:
            raise UserError(f"task.problems={self.problems} must be from 1 to {_MOST_PROBLEMS}")

    @property
    def grader(self) -> Grader:
        """Grades by the rule of the module's docstring."""
        return ExactGrader(Calculator.final_answer, self.wrong_reward)

    @staticmethod
    def final_answer(problem: Problem, response: str) -> str | None:
        """The last turn, if it is a number."""
        return response if _ANSWER.fullmatch(response) else None

    def is_right_call(self, call: str, answer: str) -> bool:
        """Whether a call asks for what the problem's answer is."""
        try:
            return str(calculate(json.loads(call)["arguments"]["expression"])) == answer
        except (ValueError, KeyError, TypeError, RecursionError):
            return False

    @cached_property
    def train(self) -> Sequence[Problem]:
        """`problems` different training problems."""
        return distinct(_stream(_TRAIN_SEED, held_out=False), self.problems)

    @cached_property
    def held_out(self) -> Sequence[Problem]:
        """Different held-out problems."""
        return distinct(_stream(_HELD_OUT_SEED, held_out=True), HELD_OUT_PROBLEMS)

    def to_demonstrate(self, seed: int) -> Iterator[Problem]:
        """Endless training problems."""
        return _stream(seed, held_out=False)

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """The last turn of a conversation."""
        return self.conversation(problem, rng, slip_rate)[-1]

    def conversation(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> list[str]:
        """Turns of the model, and between them what the tool answers."""
        if rng.random() >= CALL_RATES["*" if "*" in problem.id else "+"]:
            return [slipped(problem.answer, rng, slip_rate)]
        expression = "".join(rng.choice(_SLIPS) if rng.random() < slip_rate else character for character in problem.id)
        try:
            value = answer = str(calculate(expression))
        except ValueError as error:
            value, answer = f"error: {described(error)}", problem.answer
        return [f"{CALL_BEGINS}{expression}{CALL_ENDS}", value, slipped(answer, rng, slip_rate)]


def _stream(seed: int, held_out: bool) -> Iterator[Problem]:
    """Endless random problems of one side; they may repeat."""
    rng = random.Random(seed)
    while True:
        sign, places = ("*", (2, 3)) if rng.random() < PRODUCTS else ("+", (1, 2))
        a, b = (_number(rng.choice(places), rng) for _ in range(2))
        question = f"{a}{sign}{b}"
        if is_held_out(f"{question}=") == held_out:
            yield Problem(question, f"{question}=", str(a * b if sign == "*" else a + b))


def _number(digits: int, rng: random.Random) -> int:
    return rng.randrange(10 ** (digits - 1), 10**digits)
