"""Mistakes that one could make in MAGIC's entropy bonus."""

from collections.abc import Mapping

from tests.objectives.breaks import Break, always, result, with_negative

PART = "adaptive_entropy"


def switched(state: Mapping[str, float], *given: object) -> Mapping[str, float]:
    return {**state, "coefficient": state["weight"]}


BREAKS = [
    Break("sign", "entropy is punished", PART, "penalty", result(lambda penalty, *given: -penalty)),
    Break("sign", "on above the target", PART, "control", with_negative("entropy_old")),
    Break("state", "always on", PART, "control", result(switched)),
    Break("bound", "another target", PART, "target_entropy", always(0.25)),
    Break("scope", "the entropy of the rollouts for their surprisal", PART, "measured", always("entropy")),
    Break("state", "switched by the last step", PART, "delayed", always(True)),
]
