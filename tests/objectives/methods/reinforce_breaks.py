"""Mistakes that one could make in REINFORCE."""

from tests.objectives.breaks import Break, instead, longest_response, negated, per_group, result

BREAKS = [
    Break("sign", "cost for reward", "raw_reward", "advantage", result(negated)),
    Break("scope", "a baseline", "raw_reward", "advantage", per_group(lambda x: x - x.mean())),
    Break("denominator", "divides by the longest response", "seq_sum", "coefficients", instead(longest_response)),
    Break(
        "detach",
        "ratio to the old policy",
        "reinforce",
        "loss",
        instead(lambda self, ratio, logp, advantage, bounds, extra: -ratio * advantage),
    ),
]
