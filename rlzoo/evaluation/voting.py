"""Which wrong answers are one answer, for majority votes: those that the grader calls equal, as it does right ones."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rlzoo.tasks.base import Problem
from rlzoo.tasks.grading import GraderPool

Record = dict[str, Any]
Pair = tuple[int, int]
_WHOLE = re.compile(r"0|-?[1-9]\d*")


def with_votes(pool: GraderPool, problems: Sequence[Problem], records: Sequence[Record]) -> list[Record]:
    """The records, `vote` being the answer that a wrong answer equals where another sample wrote it otherwise before.

    Each record is of the problem at its place; responses to one problem stand side by side. Graders compare with the
    gold answer of a dataset's problem, so an answer takes its place; of other tasks, answers are equal as texts.
    """
    groups = [
        [place for place, _ in group]
        for _, group in itertools.groupby(enumerate(records), key=lambda numbered: numbered[1]["problem"])
    ]
    by_gold = [places for places in groups if _compares_with_gold(problems[places[0]], records[places[0]])]
    distinct = [_distinct_wrong(records, places) for places in by_gold]
    pairs = [pair for places in distinct for pair in itertools.combinations(places, 2) if _may_be_equal(records, pair)]
    asked = [replace(problems[first], answer=records[first]["final_answer"]) for first, _ in pairs]
    graded = pool.grade(asked, [records[second]["response"] for _, second in pairs])
    votes: dict[tuple[str, str], str] = {}  # problem and answer -> the answer that it equals
    for (first, second), result in zip(pairs, graded, strict=True):
        key = (records[second]["problem"], records[second]["final_answer"])
        if result.grade.correct == 1 and key not in votes:
            answer = str(records[first]["final_answer"])
            votes[key] = votes.get((key[0], answer), answer)
    return [_voting(record, votes.get((record["problem"], record.get("final_answer") or ""))) for record in records]


def _compares_with_gold(problem: Problem, record: Record) -> bool:
    """Whether a grader of ours does; what somebody's own reward makes of another gold answer, nobody knows."""
    task = record["task"]
    return "data_source" in problem.data and not task.get("reward") and not task.get("environment")


def _distinct_wrong(records: Sequence[Record], places: Sequence[int]) -> list[int]:
    """Where each wrong answer stands first."""
    first_places: dict[str, int] = {}
    for place in places:
        answer = records[place].get("final_answer")
        if answer is not None and records[place]["correct"] != 1:
            first_places.setdefault(answer, place)
    return list(first_places.values())


def _may_be_equal(records: Sequence[Record], pair: Pair) -> bool:
    """False for two different whole numbers, which need no grader."""
    return not all(_WHOLE.fullmatch(records[place]["final_answer"]) for place in pair)


def _voting(record: Record, vote: str | None) -> Record:
    without = {key: value for key, value in record.items() if key != "vote"}
    return without if vote is None or record["correct"] == 1 else {**without, "vote": vote}
