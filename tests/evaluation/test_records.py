"""What the records of an evaluation say: votes of answers that are equal, and calls that were right."""

import math

import pytest

from rlzoo.config import TaskConfig
from rlzoo.evaluation.evaluate import Evaluation, call_figures
from rlzoo.evaluation.grade_file import regraded
from rlzoo.tasks import load_to_grade
from rlzoo.tasks.arithmetic import Arithmetic
from rlzoo.tasks.base import Problem
from rlzoo.tasks.calculator import CALL_BEGINS, CALL_ENDS, Calculator
from rlzoo.tasks.regrading import grading_keys

CONFIG = TaskConfig("any.parquet")
PROBLEM = Problem("p", "1+1?", "2", {"data_source": ""})


def records(*boxes: str) -> list[dict[str, object]]:
    """Responses to one problem, graded."""
    task = load_to_grade(CONFIG)
    written = [rf"So \boxed{{{box}}}." if box else "?" for box in boxes]
    found = [
        {
            "problem": PROBLEM.id,
            "prompt": PROBLEM.prompt,
            "answer": PROBLEM.answer,
            "response": text,
            "correct": 0.0,
            "reward": 0.0,
            "outcome": "graded",
            "task": grading_keys(CONFIG),
            "data": dict(PROBLEM.data),
            "sample": sample,
            "final_answer": task.final_answer(PROBLEM, text),
        }
        for sample, text in enumerate(written)
    ]
    return regraded(found)


@pytest.mark.parametrize(
    ("boxes", "share"),
    [
        (("2", "2", r"\frac{1}{2}", "0.5", "1/2"), 0.0),
        (("2", "2", r"\frac{1}{2}", "0.5", "3"), 0.5),
        (("2", r"\sqrt{4}", "3", "4", ""), 1.0),
        (("2", r"x^2+x", "x(x+1)", r"x+x^2"), 0.0),
        (("2", "4", "5", "6"), 1 / 4),
    ],
)
def test_equal_answers_vote_together(boxes: tuple[str, ...], share: float) -> None:
    assert Evaluation(records(*boxes), len(boxes)).majorities == pytest.approx([share])


@pytest.mark.slow
def test_a_vote_is_said_where_it_is_not_the_answer_as_written_and_regrading_keeps_it() -> None:
    found = records("2", r"\frac{1}{2}", "0.5", "7")
    assert [record.get("vote") for record in found] == [None, None, found[1]["final_answer"], None]
    assert regraded(found) == found


def record(answer: str, *expressions: str, errors: int = 0) -> dict[str, object]:
    """A response with these calls."""
    calls = "".join(f"{CALL_BEGINS}{expression}{CALL_ENDS}" for expression in expressions)
    return {"answer": answer, "transcript": calls, "tool_calls": float(len(expressions)), "tool_errors": float(errors)}


def test_calls_are_counted_per_response_and_failed_and_right_ones_per_call() -> None:
    records = [record("6", "2*3", "2*4"), record("7"), record("8", "8*", errors=1), record("9", "3*3")]
    figures = call_figures(records, Calculator())
    assert figures == pytest.approx({"calls per response": 1.0, "failed calls (%)": 25.0, "right calls (%)": 50.0})


def test_a_task_that_does_not_know_what_to_call_for_has_no_right_calls_and_one_turn_no_calls() -> None:
    assert "right calls (%)" not in call_figures([record("6", "2*3")], Arithmetic())
    assert call_figures([{"answer": "6"}], Calculator()) == {}
    assert math.isnan(call_figures([record("6")], Calculator())["right calls (%)"])
