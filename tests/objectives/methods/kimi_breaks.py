"""Mistakes that one could make in Kimi k1.5's objective."""

from tests.objectives.breaks import Break, always, result

PART = "sequence_drift"

BREAKS = [
    Break("bound", "twice tau", PART, "tau", always(0.2)),
    Break("sign", "pushed away", PART, "penalty", result(lambda penalty, *given: -penalty)),
    Break(
        "scope",
        "the squares of tokens",
        PART,
        "penalty",
        result(
            lambda it, rows, logp, entropy: (
                0.05 * (logp - (logp.detach() if rows.logp_old is None else rows.logp_old)).square()
            )
        ),
    ),
]
