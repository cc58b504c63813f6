"""Knights and Knaves as Logic-RL grades it, and after it Advantage Reweighting and Lopti (arXiv 2505.12929).

The format is worth +1 when each of `<think>`, `</think>`, `<answer>`, `</answer>` occurs exactly once and in this
order, else -1. The answer is worth +2 when it names everybody's role rightly, -1.5 when a role is wrong, and -2 when it
cannot be read, is missing, or comes in a bad format. So a response earns 3, -0.5, -1 or -3.

What the rendered prompt has begun of the response counts as its own: chat templates as R1's open `<think>` themselves.

Source: verl/utils/reward_score/kk.py of github.com/zhyang2226/AR-Lopti. Deviation: theirs looks for the response behind
the first "Assistant:" of the whole text, even where the response itself says so; here the response is the response.
"""

import re

from rlzoo.tasks.base import Grade, Problem
from rlzoo.tasks.text import BEGUN, begun_by

KNIGHTS_AND_KNAVES = "kk_logic"
"""With it begins the `data_source` of these problems."""

_TAGS = ("<think>", "</think>", "<answer>", "</answer>")


def knights_and_knaves(problem: Problem, response: str) -> Grade:
    """Grades by the rules above. `problem.answer` has a line such as `(1) Zoey is a knight` for everybody."""
    if not _well_formed(problem, response):
        return Grade(-3.0, 0.0)
    gold = gold_roles(problem.answer)
    roles = _roles(response, list(gold))
    if roles is None:
        return Grade(-1.0, 0.0)
    return Grade(3.0, 1.0) if roles == gold else Grade(-0.5, 0.0)


def roles_of(problem: Problem, response: str) -> str | None:
    """The roles that a well-formed response gives, as text; None if there are none to be read."""
    roles = _roles(response, list(gold_roles(problem.answer))) if _well_formed(problem, response) else None
    return None if roles is None else ", ".join(f"{name} is a {role}" for name, role in roles.items())


def gold_roles(answer: str) -> dict[str, str]:
    """Everybody's role in a gold answer."""
    return dict(re.findall(r"\b([A-Za-z]+) is a (knight|knave)\b", answer))


def _well_formed(problem: Problem, response: str) -> bool:
    begun = begun_by(problem.prompt) if isinstance(problem.prompt, str) else problem.data.get(BEGUN, "")
    response = begun + response
    positions = [response.find(tag) for tag in _TAGS]
    return all(response.count(tag) == 1 for tag in _TAGS) and positions == sorted(positions)


def _roles(response: str, names: list[str]) -> dict[str, str] | None:
    """The role given to each name; None when the answer says too many or too few roles or leaves a name out."""
    answer = response.split("<answer>")[1].split("</answer>")[0]
    if len(re.findall("knight|knave", answer.lower())) != len(names):
        return None
    matches = {name: re.search(rf"\b{name}\b\s+is\s+a\s+(knight|knave)\b", answer, re.IGNORECASE) for name in names}
    roles = {name: match.group(1).lower() for name, match in matches.items() if match}
    return roles if len(roles) == len(names) else None


def is_knights_and_knaves(problem: Problem) -> bool:
    """Whether a problem of a dataset is one of Knights and Knaves."""
    return bool(problem.data["data_source"].startswith(KNIGHTS_AND_KNAVES))
