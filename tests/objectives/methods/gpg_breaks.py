"""Mistakes that one could make in GPG."""

from tests.objectives.breaks import Break, always, instead, negated, per_group, result

BREAKS = [
    Break("sign", "mean minus reward", "scaled_center", "of", result(negated)),
    Break(
        "denominator",
        "the deviation divides",
        "scaled_center",
        "advantage",
        per_group(lambda x: (x - x.mean()) / (x.std() + 1e-6)),
    ),
    Break("denominator", "rewards counted, not groups", "scaled_center", "counts", always("rewarded")),
    Break(
        "scope",
        "one share for every group",
        "scaled_center",
        "of",
        result(lambda advantage, batch: advantage * (advantage != 0).double().mean().clamp(min=0.1)),
    ),
    Break(
        "detach",
        "ratio to the old policy",
        "reinforce",
        "loss",
        instead(lambda self, ratio, logp, advantage, bounds, extra: -ratio * advantage),
    ),
]
