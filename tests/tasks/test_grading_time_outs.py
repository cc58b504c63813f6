"""What time-outs cost a step: less and less for each, and nothing after a thousand."""

import logging
from collections import Counter
from contextlib import nullcontext

import pytest

from rlzoo.tasks import sandbox
from rlzoo.tasks.grading import GraderPool
from rlzoo.tasks.sandbox import Request, Sandbox
from tests.tasks.test_grader_pool import PROBLEM, WORST, grader


@pytest.mark.slow
def test_a_policy_that_learns_what_takes_forever_costs_a_step_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sandbox, "MOST_TIMED_OUT", 2)
    attempt, limits = Sandbox._attempt, Counter[float]()

    def counted(pool: Sandbox, request: Request) -> object:
        limits[round(request.patience.limit, 3)] += request.arguments[1].startswith("sleep")
        return attempt(pool, request)

    monkeypatch.setattr(Sandbox, "_attempt", counted)
    monkeypatch.setattr(sandbox, "SHORTEST", 0.2)
    with GraderPool(grader, workers=1, timeout=1.6) as pool, caplog.at_level(logging.WARNING), pool.one_step():
        graded = pool.grade([PROBLEM] * 8, ["a", *["sleep 1000"] * 6, "bb"])
        graded += pool.grade([PROBLEM] * 2, ["sleep 1000", "ccc"])
    assert [it.outcome for it in graded] == ["graded", *["timed_out"] * 6, "graded", "timed_out", "graded"]
    assert [it.grade.reward for it in graded] == [1.0, *[WORST.reward] * 6, 2.0, WORST.reward, 3.0]
    assert limits == {1.6: 2, 0.8: 2, 0.4: 2, 0.32: 1}, "two at each, and those of the next call at the shortest"
    assert [it.getMessage() for it in caplog.records] == [
        "2 responses have timed out (task.grader_timeout=1.6): others of the same step get half as long, and half of "
        "that after every 2 more, down to 0.32 s"
    ]


@pytest.mark.parametrize("responses", [1000, 8192, 100_000])
def test_the_time_outs_of_a_step_cost_what_is_said_however_many_there_are(responses: int) -> None:
    pool, whole = GraderPool(grader), 0.0
    with pool.one_step():
        for pool.patience.late in range(responses):
            whole += pool.patience.limit / pool.timeout
    assert 63 < whole < 64 and pool.timeout == 10


@pytest.mark.slow
def test_a_step_with_too_many_time_outs_is_graded_no_further_and_the_next_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sandbox, "GIVEN_UP", 3)
    responses = ["a", *["sleep 1000"] * 3, *["sleep 0.1"] * 2]
    with GraderPool(grader, workers=1, timeout=0.4) as pool, caplog.at_level(logging.WARNING):
        with pool.one_step():
            graded = pool.grade([PROBLEM] * 6, responses)
            again = pool.grade([PROBLEM], ["bb"])
        told = [it.getMessage() for it in caplog.records]
        with pool.one_step():
            fresh = pool.grade([PROBLEM], ["bb"])
        outside = pool.grade([PROBLEM] * 6, responses)
    assert [it.outcome for it in graded] == ["graded", *["timed_out"] * 5]
    assert [it.grade for it in [*graded[1:], *again]] == [WORST] * 6 and again[0].outcome == "timed_out"
    assert told == ["3 responses have timed out: all others of the step count as if they had, untried"]
    assert fresh[0].outcome == "graded"
    assert [it.outcome for it in outside] == ["graded", *["timed_out"] * 3, *["graded"] * 2]


@pytest.mark.slow
def test_time_outs_of_one_step_hurry_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "MOST_TIMED_OUT", 1)
    with GraderPool(grader, workers=1, timeout=0.6) as pool:
        for call in (pool.one_step, pool.one_step, nullcontext, nullcontext):
            with call():
                assert [it.outcome for it in pool.grade([PROBLEM], ["sleep 1000"])] == ["timed_out"]
                assert pool.patience.limit == 0.3
                assert [it.outcome for it in pool.grade([PROBLEM], ["sleep 0.1"])] == ["graded"]
