"""Mistakes that one could make in positive-advantage reweighting."""

from collections.abc import Mapping

from tests.objectives.breaks import Break, always, result, with_negative

PART = "positive_reweighting"


def forgotten(state: Mapping[str, float], *given: object) -> Mapping[str, float]:
    return dict.fromkeys(state, 1.0)


BREAKS = [
    Break("sign", "the tokens of bad responses", PART, "weight", with_negative("advantage")),
    Break("bound", "another start", PART, "start", always(0.9)),
    Break("bound", "another step", PART, "step", always(0.1)),
    Break(
        "state",
        "forgets its controller",
        PART,
        "control",
        result(lambda state, *given: {"weight": 1.0} if state else state),
    ),
]
