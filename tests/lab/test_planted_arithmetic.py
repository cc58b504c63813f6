"""Planted tokens stand where they are said to, as often as they are said to, and are never graded."""

import random
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlzoo.lab import planted_arithmetic
from rlzoo.lab.planted_arithmetic import GIVEN_RATE, USEFUL, USELESS, PlantedArithmetic
from rlzoo.tasks.arithmetic import Arithmetic
from rlzoo.tasks.base import Problem

TASK = PlantedArithmetic()
ASKED = Problem("", "34+58-16=", "76", {"a": 34, "b": 58, "c": 16})
SEEDS = st.integers(0, 10**6)


def demonstrations(seed: int, count: int, slip_rate: float = 0.0) -> list[tuple[Problem, str]]:
    rng = random.Random(seed)
    return [(p, TASK.demonstration(p, rng, slip_rate)) for p in islice(TASK.to_demonstrate(seed), count)]


def plant(monkeypatch: pytest.MonkeyPatch, useless: float, useful: float) -> None:
    monkeypatch.setattr(planted_arithmetic, "USELESS_RATE", useless)
    monkeypatch.setattr(planted_arithmetic, "USEFUL_RATE", useful)


def test_the_useless_token_stands_last_and_the_useful_one_first(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, 1.0, 1.0)
    assert TASK.demonstration(ASKED, random.Random(0)) == "*92-16=76_"
    assert TASK.demonstration(Problem("", "", "", {**ASKED.data, "given": "*"}), random.Random(0)) == "92-16=76_"


def test_planted_tokens_come_at_their_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, 0.05, 0.02)
    made = demonstrations(1, 20_000)
    free = [text for problem, text in made if not problem.data["given"]]
    assert len(free) / len(made) == pytest.approx(1 - GIVEN_RATE, abs=0.01)
    assert sum(text.count(USELESS) for _, text in made) / len(made) == pytest.approx(0.05, abs=0.005)
    assert sum(text.startswith(USEFUL) for text in free) / len(free) == pytest.approx(0.02, abs=0.005)


def test_nothing_slips_behind_a_useful_token_whether_given_or_written(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, 0.5, 0.5)
    right = {True: list[float](), False: list[float]()}
    for problem, text in demonstrations(2, 2000, slip_rate=0.3):
        careful = str(problem.prompt).endswith(USEFUL) or text.startswith(USEFUL)
        right[careful].append(TASK.grader(problem, text).correct)
    assert set(right[True]) == {1.0}
    assert sum(right[False]) / len(right[False]) < 0.3


@given(SEEDS, st.sampled_from([0.0, 0.3]), st.data())
def test_planted_tokens_change_no_grade_and_no_answer(seed: int, slip_rate: float, data: st.DataObject) -> None:
    problem = next(TASK.to_demonstrate(seed))
    plain = Arithmetic().demonstration(problem, random.Random(seed), slip_rate)
    planted = "".join(character + data.draw(st.sampled_from(["", USELESS, USEFUL])) for character in plain)
    assert PlantedArithmetic(wrong_reward=-1.0).grader(problem, planted) == Arithmetic(wrong_reward=-1.0).grader(
        problem, plain
    )
    assert TASK.final_answer(problem, planted) == Arithmetic().final_answer(problem, plain)
