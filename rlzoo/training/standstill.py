"""A run that does not learn, known by its metrics: what is wrong, and what to do about it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PATIENCE = 5
"""Steps in a row after which a standstill is said."""
NO_ENTROPY = 0.005
"""Nats per token, below which every response to a prompt is the same."""


@dataclass(frozen=True)
class Standstill:
    """What keeps a run from learning while every step shows it."""

    name: str
    shows: Callable[[Mapping[str, Any]], bool]
    """Whether the metrics of a step show it."""
    remedy: str

    def __str__(self) -> str:
        return f"{self.name}; {self.remedy}"


SKIPPED = Standstill(
    "no gradient is finite, and every update is skipped",
    lambda step: step["updates_skipped"] > 0 and step["gradient_norm"] == 0,
    "lower train.learning_rate, or take out the part of the objective that divides by zero",
)
STANDSTILLS = (
    Standstill(
        "all responses are truncated",
        lambda step: step["truncated"] == 1,
        "raise rollout.max_response_tokens, or choose a model that ends its responses",
    ),
    Standstill(
        "no group has a signal: the responses to each prompt all earn the same",
        lambda step: step["groups_without_signal"] == 1,
        "see rlzoo task with the same keys; choose problems that the model solves now and then, more "
        "rollout.responses_per_prompt, or another task.reward",
    ),
    SKIPPED,
    Standstill(
        "the gradient is 0 although there is a signal",
        lambda step: step["gradient_norm"] == 0 and step["updates_skipped"] == 0 and step["groups_without_signal"] < 1,
        "a part of the objective silences every token; rlzoo inspect shows which",
    ),
    Standstill(
        f"the entropy is gone: below {NO_ENTROPY} nats a token",
        lambda step: step["entropy"] < NO_ENTROPY,
        "lower train.learning_rate, or add +entropy_bonus or +kl",
    ),
)
"""The first that shows explains those behind it."""


def standstill(metrics: Sequence[Mapping[str, Any]], patience: int = PATIENCE) -> Standstill | None:
    """What the last steps all show, so many of them or all that there are of a shorter run; None if all is well."""
    last = metrics[-patience:]
    return next((it for it in STANDSTILLS if last and all(map(it.shows, last))), None)


class Watch:
    """Looks at a run step by step, and says each standstill once, when it has shown for so many steps."""

    def __init__(self) -> None:
        self.steps: list[Mapping[str, Any]] = []
        self.said: set[str] = set()

    def __call__(self, metrics: Mapping[str, Any]) -> Standstill | None:
        """The standstill that has become clear with this step, if there is one that has not been said."""
        self.steps = [*self.steps[1 - PATIENCE :], metrics]
        found = standstill(self.steps) if len(self.steps) == PATIENCE else None
        if found is None or found.name in self.said:
            return None
        self.said.add(found.name)
        return found
