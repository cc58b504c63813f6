"""What the responses of an evaluation called: how often, with how many failures, and whether for the right thing."""

from collections.abc import Mapping, Sequence
from typing import Any

from rlzoo.tasks.base import KnowsCalls, Task
from rlzoo.tasks.tools import calls_in

Records = Sequence[Mapping[str, Any]]


def call_figures(records: Records, task: Task) -> dict[str, float]:
    """What it is -> its number: calls per response, percent of calls that failed, and percent of right calls.

    Nothing where responses have one turn; no right calls where the task does not know them; nan of no call.
    """
    if not all("tool_calls" in record for record in records):
        return {}
    calls, failed = (sum(record[name] for record in records) for name in ("tool_calls", "tool_errors"))
    figures = {
        "calls per response": calls / len(records),
        "failed calls (%)": 100 * failed / calls if calls else float("nan"),
    }
    if isinstance(task, KnowsCalls):
        figures["right calls (%)"] = 100 * right_calls(records, task)
    return figures


def right_calls(records: Records, task: KnowsCalls) -> float:
    """The share of the calls that ask for what the problem's answer is; nan if there is none."""
    right = [
        task.is_right_call(call, record["answer"]) for record in records for call in calls_in(record["transcript"])
    ]
    return sum(right) / len(right) if right else float("nan")
