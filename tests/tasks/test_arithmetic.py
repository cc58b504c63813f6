"""Arithmetic: disjoint splits, and a grader that only a right and well-formed response satisfies."""

import pickle
import random
import subprocess
import sys
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlzoo.errors import UserError
from rlzoo.tasks.arithmetic import Arithmetic, stream
from rlzoo.tasks.base import Problem
from rlzoo.tasks.text import is_held_out

DIGITS = st.integers(1, 4)
SEEDS = st.integers(0, 10**6)
demonstration = Arithmetic().demonstration


def problem(digits: int, seed: int, held_out: bool = False) -> Problem:
    return next(stream(digits, seed, held_out))


@pytest.mark.parametrize("digits", [1, 2, 3])
def test_no_problem_is_on_both_sides_or_twice_on_one(digits: int) -> None:
    task = Arithmetic(digits=digits, problems=min(20_000, 10 ** (3 * digits) // 4))
    train, held_out = ([p.prompt for p in side] for side in (task.train, task.held_out))
    assert len(train) == task.problems
    assert len(held_out) == (2048 if digits > 1 else 62)
    assert not set(train) & set(held_out)
    assert len(set(train)) == len(train) and len(set(held_out)) == len(held_out)


@given(DIGITS, SEEDS, st.booleans())
def test_a_side_is_a_property_of_the_problem_alone(digits: int, seed: int, held_out: bool) -> None:
    assert all(is_held_out(str(p.prompt)) == held_out for p in islice(stream(digits, seed, held_out), 20))


def test_the_problems_are_the_same_on_every_machine() -> None:
    task = Arithmetic()
    assert [p.prompt for p in task.held_out[:3]] == ["49+97-53=", "75+36-56=", "37+23-24="]
    assert [p.prompt for p in task.train[:3]] == ["8+32-15=", "63+97-57=", "60+83-48="]
    assert Arithmetic(problems=100).train == task.train[:100]


@given(DIGITS, SEEDS)
def test_the_answer_is_the_value_of_the_problem(digits: int, seed: int) -> None:
    asked = problem(digits, seed)
    a, rest = str(asked.prompt).removesuffix("=").split("+")
    b, c = rest.split("-")
    assert asked.answer == str(int(a) + int(b) - int(c))
    assert not asked.answer.startswith("-")


@given(DIGITS, SEEDS)
def test_a_demonstration_without_slips_is_right(digits: int, seed: int) -> None:
    asked = problem(digits, seed)
    assert Arithmetic().grader(asked, demonstration(asked, random.Random(seed))).correct == 1


@given(DIGITS, SEEDS)
def test_a_slip_in_every_digit_is_wrong(digits: int, seed: int) -> None:
    asked = problem(digits, seed)
    slipped, clean = (demonstration(asked, random.Random(seed), rate) for rate in (1.0, 0.0))
    step, answer = slipped.split("=")
    assert all(x != y for x, y in zip(step, clean.split("=")[0], strict=True) if x.isdigit())
    assert answer != str(difference(step))


def difference(step: str) -> int:
    minuend, subtrahend = step.split("-")
    return int(minuend) - int(subtrahend)


def test_a_demonstration_goes_on_from_what_it_wrote() -> None:
    rng, asked = random.Random(0), Problem("", "34+58-16=", "76", {"a": 34, "b": 58, "c": 16})
    slips = [demonstration(asked, rng, 0.2) for _ in range(2000)]
    consistent = [text for text in slips if str(difference(text.split("=")[0])) == text.split("=")[1]]
    wrong = [text for text in consistent if Arithmetic().grader(asked, text).correct == 0]
    # two or three digits in the answer, each slipping with probability 0.2
    assert 0.55 < len(consistent) / len(slips) < 0.7
    assert len(wrong) > 200


def test_slips_come_at_the_rate_asked_for() -> None:
    rng, asked = random.Random(0), Problem("", "34+58-16=", "76", {"a": 34, "b": 58, "c": 16})
    steps = [demonstration(asked, rng, 0.1).split("=")[0] for _ in range(5000)]
    slipped = sum(x != y for step in steps for x, y in zip(step, "92-16", strict=True))
    assert abs(slipped / (4 * len(steps)) - 0.1) < 0.01


@given(DIGITS, SEEDS, st.data())
def test_a_truncated_response_is_wrong(digits: int, seed: int, data: st.DataObject) -> None:
    asked = problem(digits, seed)
    text = demonstration(asked, random.Random(seed))
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    assert Arithmetic(wrong_reward=-1.0).grader(asked, cut) == Arithmetic(wrong_reward=-1.0).grader(asked, "")


@pytest.mark.parametrize(
    "response",
    [
        *("", "76", "=76", "-16=76", "92=76", "92-16=", "92-16=76=", "92-16=76=76", "92-16=75=76", "34+58-16=92-16=76"),
        *("92-16=76 ", " 92-16=76", "92-16=76\n", "92-16=076", "92-16=+76", "92-16=-76", "92-16=76.0"),
        *("92-16=7\u0666", "\u06692-16=76", "=" * 10_000),
    ],
)
def test_a_malformed_response_is_wrong(response: str) -> None:
    asked = Problem("", "34+58-16=", "76", {"a": 34, "b": 58, "c": 16})
    assert Arithmetic(wrong_reward=-0.5).grader(asked, "92-16=76").reward == 1.0
    grade = Arithmetic(wrong_reward=-0.5).grader(asked, response)
    assert (grade.reward, grade.correct) == (-0.5, 0.0)


def test_only_the_answer_counts() -> None:
    asked = Problem("", "34+58-16=", "76", {"a": 34, "b": 58, "c": 16})
    assert Arithmetic().grader(asked, "99-23=76").correct == 1


def test_the_grader_is_picklable_and_its_module_imports_no_torch() -> None:
    grader = Arithmetic(wrong_reward=-1.0).grader
    assert pickle.loads(pickle.dumps(grader)) == grader
    code = "import sys, rlzoo.tasks.arithmetic; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"digits": 0}, "task.options.digits=0 must be a whole number from 1 to 6"),
        ({"digits": 7}, "task.options.digits=7"),
        ({"digits": "2"}, "task.options.digits='2'"),
        ({"digits": True}, "task.options.digits=True"),
        ({"digits": 1}, "task.problems=20000 must be from 1 to 250 with task.options.digits=1"),
        ({"problems": 0}, "task.problems=0"),
    ],
)
def test_a_bad_option_is_one_error_that_names_it(options: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        Arithmetic(**options)
    assert "\n" not in str(error.value)
