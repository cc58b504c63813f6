"""The calculator: its grammar is that of whole numbers in Python, and its task is graded by the answer alone."""

import ast
import json
import pickle
import random
import re
import subprocess
import sys
import time
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlzoo.config import TaskConfig
from rlzoo.config.recorded import outside_names
from rlzoo.errors import UserError
from rlzoo.tasks.base import Problem
from rlzoo.tasks.calculator import CALL_RATES, LONGEST, MOST_DIGITS, Calculator, calculate
from rlzoo.tasks.tools import ToolPool, calls_in, load_tools
from tests.rollout.episodes import begin, respond

TASK = Calculator()
ASKED = Problem("123*45", "123*45=", "5535")
NUMBERS = st.integers(0, 10**6).map(str)
EXPRESSIONS = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map("".join),
        inner.map("({})".format),
        inner.map("-{}".format),
        inner.map(" {} ".format),
    ),
    max_leaves=12,
)


def in_python(node: ast.expr) -> int:
    """The value of a tree of whole numbers. Raises ValueError for any other tree."""
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -in_python(operand)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return in_python(left) + in_python(right)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return in_python(left) - in_python(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return in_python(left) * in_python(right)
    raise ValueError("not of the grammar")


def expected(expression: str) -> int | None:
    """What Python's own parser makes of it, None if nothing; leading zeros, which it alone refuses, are left out."""
    try:
        return in_python(ast.parse(re.sub(r"\b0+(?=\d)", "", expression.strip()), mode="eval").body)
    except (SyntaxError, ValueError):
        return None


def value_of(expression: str) -> int | None:
    try:
        return calculate(expression)
    except ValueError:
        return None


@given(EXPRESSIONS)
def test_an_expression_has_the_value_that_python_gives_it(expression: str) -> None:
    if len(expression) <= LONGEST:
        assert calculate(expression) == expected(expression)


@given(st.text("0123456789+-*() ", max_size=12))
def test_what_python_refuses_is_refused_and_nothing_else(expression: str) -> None:
    assert value_of(expression) == expected(expression)


@given(st.text(max_size=2 * LONGEST))
def test_whatever_is_asked_gets_a_number_or_a_value_error(expression: str) -> None:
    assert type(value_of(expression)) in (int, type(None))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "a number is missing at the end"),
        ("2**3", "a number is missing at position 3"),
        ("2 3", "an operator is missing at position 3"),
        ("2(3)", "an operator is missing at position 2"),
        ("(2", "a closing bracket is missing at the end"),
        ("2+x", "a number is missing at position 3"),
        ("1e9", "an operator is missing at position 2"),
        ("٣", "a number is missing at position 1"),
        ("²", "a number is missing at position 1"),
        ("__import__('os')", "a number is missing at position 1"),
        ("9" * (MOST_DIGITS + 1), f"a number has at most {MOST_DIGITS} digits"),
        ("1+" * LONGEST, f"an expression has at most {LONGEST} characters"),
    ],
)
def test_an_error_says_what_is_wrong_and_where(expression: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        calculate(expression)


@pytest.mark.parametrize("shape", ["(", "-", "9*", "(-", "((1)*", "*", " "])
@pytest.mark.parametrize("length", [LONGEST, 10**6])
def test_no_expression_takes_long_or_gives_a_number_that_is_longer_than_it(shape: str, length: int) -> None:
    started = time.process_time()
    value = value_of((shape * length)[: length - 1] + "9")
    assert time.process_time() - started < 0.5
    assert value is None or len(str(abs(value))) <= LONGEST


def test_nothing_of_other_types_is_calculated() -> None:
    with pytest.raises((TypeError, AttributeError)):
        calculate(12)  # type: ignore[arg-type]


def test_a_recorded_file_may_name_the_calculator_and_nothing_else_of_ours() -> None:
    assert outside_names({"task.tools": list(Calculator.tools)}) == {}
    assert outside_names({"task.tools": ["rlzoo.tasks.calculator:Calculator", "rlzoo.files:clear"]}).keys() == {
        "rlzoo.tasks.calculator:Calculator",
        "rlzoo.files:clear",
    }


# ---- the task --------------------------------------------------------------------------------------------------------


def test_every_answer_is_that_of_the_question_and_no_problem_is_on_both_sides() -> None:
    problems = [*TASK.train, *TASK.held_out]
    assert len({problem.id for problem in problems}) == len(problems) == 20_000 + 2048
    assert all(int(problem.answer) == expected(problem.id) for problem in problems)
    assert all(problem.prompt == f"{problem.id}=" for problem in problems)
    assert not {problem.id for problem in islice(TASK.to_demonstrate(7), 20_000)} & {it.id for it in TASK.held_out}


def test_two_in_three_problems_are_products_of_numbers_of_two_or_three_digits_the_others_small_sums() -> None:
    problems = list(islice(TASK.to_demonstrate(3), 6000))
    products = [problem.id for problem in problems if re.fullmatch(r"[1-9]\d{1,2}\*[1-9]\d{1,2}", problem.id)]
    sums = [problem.id for problem in problems if re.fullmatch(r"(0|[1-9]\d?)\+(0|[1-9]\d?)", problem.id)]
    assert len(products) + len(sums) == len(problems)
    assert abs(len(products) / len(problems) - 2 / 3) < 0.02


@pytest.mark.parametrize(
    ("response", "correct"),
    [("5535", 1), ("5536", 0), ("", 0), (" 5535", 0), ("5535=", 0), ("05535", 0), ("+5535", 0), ("٥٥٣٥", 0)],
)
def test_only_the_answer_itself_is_right(response: str, correct: int) -> None:
    grade = pickle.loads(pickle.dumps(Calculator(wrong_reward=-1.0).grader))(ASKED, response)
    assert (grade.correct, grade.reward) == (correct, 1.0 if correct else -1.0)


def test_a_turn_that_calls_is_no_answer() -> None:
    call = next(turns[0] for seed in range(50) if len(turns := TASK.conversation(ASKED, random.Random(seed))) > 1)
    assert TASK.grader(ASKED, call).correct == 0 and TASK.final_answer(ASKED, call) is None
    assert TASK.final_answer(ASKED, "-12") == "-12"


def test_grading_imports_no_torch() -> None:
    code = "import sys, rlzoo.tasks.calculator; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("problems", [0, 300_001])
def test_a_number_of_problems_out_of_range_is_refused(problems: int) -> None:
    with pytest.raises(UserError, match=f"task.problems={problems} must be from 1 to 300000"):
        Calculator(problems)


# ---- demonstrations --------------------------------------------------------------------------------------------------


def test_demonstrations_call_as_often_as_they_say() -> None:
    rng = random.Random(0)
    demonstrated = [(it.id, TASK.conversation(it, rng, 0.05)) for it in islice(TASK.to_demonstrate(1), 9000)]
    for sign, rate in CALL_RATES.items():
        calls = [len(turns) > 1 for question, turns in demonstrated if sign in question]
        assert abs(sum(calls) / len(calls) - rate) < 0.03


def test_without_slips_every_demonstration_is_right() -> None:
    rng = random.Random(0)
    for problem in islice(TASK.to_demonstrate(1), 2000):
        *before, last = TASK.conversation(problem, rng)
        assert last == problem.answer
        assert not before or json.loads(calls_in(before[0])[0])["arguments"] == {"expression": problem.id}


def test_what_demonstrations_say_that_the_tool_answers_is_what_it_answers() -> None:
    rng = random.Random(0)
    turns = [TASK.conversation(it, rng, 0.3) for it in islice(TASK.to_demonstrate(1), 400)]
    called = [turn[:2] for turn in turns if len(turn) > 1]
    with ToolPool(load_tools(TaskConfig("calculator", tools=list(TASK.tools))), 1, 10.0) as pool:
        begin(pool, [Problem("1", "", "")] * len(called), range(len(called)))
        answers = [it for (it,) in respond(pool, [(row, turn) for row, (turn, _) in enumerate(called)])]
    assert [answer.text for answer in answers] == [said for _, said in called]
    assert {answer.is_error for answer in answers} == {False, True}


@pytest.mark.parametrize("call", ["[" * 5000, '{"arguments": {"expression": "' + "(" * LONGEST + '"}}', "{}", "1"])
def test_a_call_that_is_nested_without_end_is_a_wrong_one(call: str) -> None:
    assert not TASK.is_right_call(call, "5535")
