"""Sums: disjoint sides, demonstrations that are right without slips, and a grader for which only the answer counts."""

import pickle
import random
import subprocess
import sys
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlzoo.errors import UserError
from rlzoo.tasks.base import Problem
from rlzoo.tasks.sums import DEMONSTRATED, HELD_OUT, TRAINED, Sums, side

DIGITS = st.integers(1, 9)
SEEDS = st.integers(0, 10**6)
ASKED = Problem("616+27", "616+27=", "643", {"numbers": [616, 27]})


def problem(digits: int, seed: int) -> Problem:
    return next(Sums(digits=digits, problems=1).to_demonstrate(seed))


@pytest.mark.parametrize("digits", [1, 2, 5])
def test_the_three_sides_share_no_problem(digits: int) -> None:
    task = Sums(digits=digits, problems=min(20_000, (10**digits - 1) ** 2 // 4))
    train, held_out = ([p.prompt for p in problems] for problems in (task.train, task.held_out))
    demonstrated = {p.prompt for p in islice(task.to_demonstrate(2), 20_000)}
    assert len(set(train)) == len(train) == task.problems
    assert len(set(held_out)) == len(held_out) > 0
    assert not set(train) & set(held_out) and not demonstrated & {*train, *held_out}
    for prompts, on in ((train, TRAINED), (held_out, HELD_OUT), (demonstrated, DEMONSTRATED)):
        assert {side(str(prompt)) for prompt in prompts} == {on}


def test_the_problems_are_the_same_on_every_machine() -> None:
    task = Sums()
    assert [p.prompt for p in task.held_out[:3]] == ["8+53664=", "7306+6=", "38206+96="]
    assert [p.prompt for p in task.train[:3]] == ["8+8737=", "7+1034=", "4748+705="]
    assert Sums(problems=100).train == task.train[:100]


@given(DIGITS, SEEDS)
def test_numbers_have_as_many_digits_as_asked_for(digits: int, seed: int) -> None:
    task = Sums(digits=digits, fewest_digits=(digits + 1) // 2, problems=1)
    for asked in islice(task.to_demonstrate(seed), 5):
        numbers = [int(number) for number in str(asked.prompt).removesuffix("=").split("+")]
        assert all((digits + 1) // 2 <= len(str(number)) <= digits for number in numbers)
        assert numbers == asked.data["numbers"] and asked.answer == str(sum(numbers))


@given(DIGITS, SEEDS, st.sampled_from([0.0, 1.0]))
def test_a_demonstration_without_slips_is_right(digits: int, seed: int, taught: float) -> None:
    asked = problem(digits, seed)
    text = Sums(taught=taught).demonstration(asked, random.Random(seed))
    assert text.startswith("(") == bool(taught)
    assert Sums().grader(asked, text).correct == 1


def test_steps_are_the_sums_of_the_columns_with_the_carries() -> None:
    assert Sums(taught=1).demonstration(ASKED, random.Random(0)) == "(13,04,06)643"
    longest = Problem("", "99999+1=", "100000", {"numbers": [99999, 1]})
    assert Sums(taught=1).demonstration(longest, random.Random(0)) == "(10,10,10,10,10)100000"


def test_steps_come_at_the_rates_asked_for() -> None:
    task, rng = Sums(careful=0.1, taught=0.9), random.Random(0)
    for slip_rate, share in ((0.0, 0.9), (0.02, 0.1)):
        texts = [task.demonstration(ASKED, rng, slip_rate) for _ in range(5000)]
        assert abs(sum(text.startswith("(") for text in texts) / len(texts) - share) < 0.015
        assert {text for text in texts if not text.startswith("(")} == {"643"}


def test_slips_go_on_into_the_answer_and_come_at_the_rate_asked_for() -> None:
    task, rng = Sums(careful=1), random.Random(0)
    firsts = [task.demonstration(ASKED, rng, 0.1)[1:3] for _ in range(5000)]
    assert abs(sum(first != "13" for first in firsts) / len(firsts) - 0.19) < 0.02
    assert all(Sums().grader(ASKED, task.demonstration(ASKED, rng, 1.0)).correct == 0 for _ in range(50))


@given(DIGITS, SEEDS, st.floats(0.01, 0.99), st.data())
def test_a_demonstration_is_well_formed_and_no_truncated_one_is(
    digits: int, seed: int, rate: float, data: st.DataObject
) -> None:
    asked, task = problem(digits, seed), Sums(careful=1)
    text = task.demonstration(asked, random.Random(seed), rate)
    assert task.final_answer(asked, text) == text.partition(")")[2]
    cut = text[: data.draw(st.integers(0, text.index(")") + 1))]
    assert task.final_answer(asked, cut) is None


@pytest.mark.parametrize(
    "response",
    [
        *("", "(13,04,06)", "(13,04,06", "643)", "()643()", "643 ", " 643", "643\n", "0643", "+643", "643.0", "6 43"),
        *("(13,04,06)(13,04,06)643", "(13+04)643", "616+27=643", "64\u0663", "(" * 10_000, "(" + "0," * 10_000),
    ],
)
def test_a_malformed_response_is_wrong(response: str) -> None:
    grade = Sums(wrong_reward=-0.5).grader(ASKED, response)
    assert (grade.reward, grade.correct) == (-0.5, 0.0)


@pytest.mark.parametrize("response", ["643", "(13,04,06)643", "()643", "(99,99)643"])
def test_only_the_answer_counts(response: str) -> None:
    assert Sums(wrong_reward=-0.5).grader(ASKED, response).reward == 1.0


def test_the_grader_is_picklable_and_its_module_imports_no_torch() -> None:
    grader = Sums(wrong_reward=-1.0).grader
    assert pickle.loads(pickle.dumps(grader)) == grader
    code = "import sys, rlzoo.tasks.sums; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"digits": 0}, "task.options.digits=0 must be a whole number from 1 to 9"),
        ({"digits": "2"}, "task.options.digits='2'"),
        ({"digits": True}, "task.options.digits=True"),
        ({"fewest_digits": 6}, "task.options.fewest_digits=6 must be a whole number from 1 to 5"),
        ({"careful": 1.5}, "task.options.careful=1.5 must be a number from 0 to 1"),
        ({"taught": "half"}, "task.options.taught='half' must be a number from 0 to 1"),
        ({"digits": 1}, "task.problems=20000 must be from 1 to 20 with task.options.digits=1"),
        ({"problems": 0}, "task.problems=0"),
    ],
)
def test_a_bad_option_is_one_error_that_names_it(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        Sums(**options)
    assert "\n" not in str(error.value)
