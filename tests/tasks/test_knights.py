"""Compact Knights and Knaves: one solution each, disjoint splits, and a grader that only the solution satisfies."""

import pickle
import random
import re
import subprocess
import sys
from itertools import islice, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlzoo.errors import UserError
from rlzoo.tasks import knights
from rlzoo.tasks.base import Problem
from rlzoo.tasks.knights import MAX_TRIES, Knights, solutions, worth
from rlzoo.tasks.text import is_held_out

TASK = Knights()
ASKED = Problem("", "A:B0,B:A#C,C:A&C?", "101")
SEEDS = st.integers(0, 10**6)
EVERY = [*TASK.train, *TASK.held_out]


def knows(roles: str, claim: str) -> bool:
    """Whether a claim is true, by reading it aloud instead of by `worth`."""
    knight = dict(zip("ABC", (role == "1" for role in roles), strict=False))
    said = claim[2:]
    if said[1] in "01":
        return knight[said[0]] is (said[1] == "1")
    both = (knight[said[0]], knight[said[2]])
    return {"=": both in ((True, True), (False, False)), "#": sum(both) == 1, "&": all(both), "|": any(both)}[said[1]]


def test_every_problem_has_its_answer_as_its_only_solution() -> None:
    for problem in EVERY:
        claims = str(problem.prompt).removesuffix("?").split(",")
        possible = [
            roles
            for roles in map("".join, product("01", repeat=len(claims)))
            if all((role == "1") == knows(roles, claim) for role, claim in zip(roles, claims, strict=True))
        ]
        assert possible == [problem.answer] == solutions(str(problem.prompt))


def test_the_example_of_the_docstring_is_a_problem_and_one_of_its_demonstrations() -> None:
    documented = str(knights.__doc__).splitlines()[2].split()
    assert documented[0] == ASKED.prompt and solutions(documented[0]) == [ASKED.answer]
    assert documented[1] in {TASK.demonstration(ASKED, random.Random(seed)) for seed in range(50)}


def test_a_paradox_has_no_solution_and_a_riddle_may_have_two() -> None:
    assert solutions("A:B0,B:A1?") == []
    assert solutions("A:B1,B:A1?") == ["00", "11"]


@pytest.mark.parametrize(
    ("claim", "true"),
    [
        ("A:B0", {"00", "10"}),
        ("A:B1", {"01", "11"}),
        ("A:A=B", {"00", "11"}),
        ("B:A#B", {"01", "10"}),
        ("A:A&B", {"11"}),
        ("B:A|B", {"01", "10", "11"}),
    ],
)
def test_a_claim_means_what_the_docstring_says(claim: str, true: set[str]) -> None:
    assert {f"{a}{b}" for a, b in product((0, 1), repeat=2) if worth(claim, (a, b))} == true


def test_no_problem_is_on_both_sides_or_twice_on_one() -> None:
    prompts = [str(problem.prompt) for problem in EVERY]
    assert len(set(prompts)) == len(prompts)
    assert [is_held_out(prompt) for prompt in prompts] == [False] * len(TASK.train) + [True] * len(TASK.held_out)
    assert not any(is_held_out(str(problem.prompt)) for problem in islice(TASK.to_demonstrate(0), 2000))


def test_the_problems_are_the_same_on_every_machine() -> None:
    assert Knights(problems=10).train == TASK.train[:10]
    assert TASK.held_out[0].prompt == "A:A#C,B:A0,C:B0?"


@given(SEEDS)
def test_a_demonstration_without_slips_is_right_and_short(seed: int) -> None:
    rng = random.Random(seed)
    problem = rng.choice(EVERY)
    text = TASK.demonstration(problem, rng)
    assert TASK.grader(problem, text).correct == 1
    *wrong, last = text.partition("=")[0].split(",")
    assert last == f"{problem.answer}:{problem.answer}"
    assert len(wrong) < MAX_TRIES and all(it.split(":")[0] != it.split(":")[1] for it in wrong)
    assert set(str(problem.prompt) + text) <= set(TASK.characters)


@given(SEEDS)
def test_a_demonstration_stops_where_its_claims_as_written_agree(seed: int) -> None:
    rng = random.Random(seed)
    text = TASK.demonstration(rng.choice(TASK.train), rng, 0.3)
    agree = [roles == values for roles, values in re.findall("([01]+):([01]+)", text)]
    assert not any(agree[:-1])


def test_slips_make_a_good_half_of_the_demonstrations_right() -> None:
    rng = random.Random(0)
    right = [TASK.grader(it, TASK.demonstration(it, rng, 0.1)).correct for it in islice(TASK.to_demonstrate(0), 4000)]
    # the solution's claims and the answer have three digits each, and no wrong try may be taken
    assert 0.45 < sum(right) / len(right) < 0.9**6 + 0.04


@pytest.mark.parametrize(
    "response",
    [
        *("", "101", "=101", "101:011", "101:011=", "101:011=1010", "101:011=10", "101:011=101=101", "101=101"),
        *("101:011,=101", "01:011=101", "101:011=101 ", " 101:011=101", "101:011=10\u0661", "101:101=011", "," * 9999),
    ],
)
def test_a_malformed_or_wrong_response_earns_nothing(response: str) -> None:
    assert Knights(wrong_reward=-0.5).grader(ASKED, "000:111,101:101=101").reward == 1.0
    grade = Knights(wrong_reward=-0.5).grader(ASKED, response)
    assert (grade.reward, grade.correct) == (-0.5, 0.0)


def test_only_the_answer_counts() -> None:
    assert Knights().grader(ASKED, "111:111=101").correct == 1
    assert TASK.final_answer(ASKED, "111:111=011") == "011"
    assert TASK.final_answer(ASKED, "=011") is None


def test_the_grader_is_picklable_and_its_module_imports_no_torch() -> None:
    grader = Knights(wrong_reward=-1.0).grader
    assert pickle.loads(pickle.dumps(grader)) == grader
    code = "import sys, rlzoo.tasks.knights; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_problems_are_one_error() -> None:
    with pytest.raises(UserError, match=r"task\.problems=0 must be at least 1"):
        Knights(problems=0)
