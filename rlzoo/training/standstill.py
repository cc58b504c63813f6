"""A run that does not learn, known by its metrics: what is wrong, and what to do about it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlzoo.config import Config, load_config

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
        "no group has a signal: all advantages are 0, as where the responses to each prompt all earn the same",
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


def standstill(metrics: Sequence[Mapping[str, Any]], config: Config) -> Standstill | None:
    """What the last steps of a run all show, or all steps of a shorter one; None if all is well."""
    last = metrics[-PATIENCE:]
    shown = next((candidate for candidate in STANDSTILLS if last and all(map(candidate.shows, last))), None)
    return _broken(metrics[0], last[-1], config) if shown is not None and _has_lost(metrics[0], last) else shown


def _has_lost(first: Mapping[str, Any], last: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the model had a signal at first, and earns less ever since: then its problems are not to blame."""
    has_signal = first["groups_without_signal"] < 1 and first["updates_skipped"] == 0
    return has_signal and all(step["reward"] < first["reward"] and not SKIPPED.shows(step) for step in last)


def _broken(first: Mapping[str, Any], last: Mapping[str, Any], config: Config) -> Standstill:
    """A model that earned something in its first step, until training ruined it."""
    rate, default = config.train.learning_rate, load_config([f"model.name={config.model.name}"]).train.learning_rate
    usual = f"; {default:g} is the default here" if default < rate else ""
    return Standstill(
        f"training has broken the model, which earned {first['reward']:.3g} in step {first['step']} and "
        f"{last['reward']:.3g} in step {last['step']}",
        lambda step: True,
        f"lower train.learning_rate={rate:g}, the likely cause{usual}",
    )


class StandstillWatch:
    """Looks at a run step by step, and says each standstill once, when it has shown for so many steps."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.steps: list[Mapping[str, Any]] = []
        self.told: set[str] = set()

    def __call__(self, metrics: Mapping[str, Any]) -> Standstill | None:
        """The standstill that has become clear with this step, if there is one that has not been said."""
        self.steps = [*self.steps[:1], *self.steps[1:][1 - PATIENCE :], metrics]
        shown = standstill(self.steps, self.config) if len(self.steps) >= PATIENCE else None
        name = shown.name.partition(",")[0] if shown else ""
        if shown is None or name in self.told:
            return None
        self.told.add(name)
        return shown
