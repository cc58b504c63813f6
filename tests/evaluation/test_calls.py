"""Calls of an evaluation: how many, how many failed, and how many asked for what the answer is."""

import math

import pytest

from rlzoo.evaluation.calls import call_figures
from rlzoo.tasks.arithmetic import Arithmetic
from rlzoo.tasks.calculator import CALL_BEGINS, CALL_ENDS, Calculator


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
