"""A reward function for verl that says two things of an answer: whether it is right, and how short it is."""

from typing import Any

from examples.verl_sums import compute_score as accuracy


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None) -> dict[str, float]:
    """The score is the first of them."""
    right = accuracy(data_source, solution_str, ground_truth, extra_info)
    return {"score": right, "acc": right, "shortness": -len(solution_str) / 10}
