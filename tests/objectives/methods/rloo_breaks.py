"""Mistakes that one could make in RLOO."""

from tests.objectives.breaks import Break, given, instead, longest_response, negated, per_group, result

BREAKS = [
    Break("sign", "baseline minus reward", "leave_one_out", "advantage", result(negated)),
    Break("sign", "divergence rewarded", "kl_reward", "shaping", result(negated)),
    Break(
        "denominator", "mean with the response itself", "leave_one_out", "advantage", per_group(lambda x: x - x.mean())
    ),
    Break("denominator", "divides by the longest response", "seq_sum", "coefficients", instead(longest_response)),
    Break(
        "scope",
        "others of the whole batch",
        "leave_one_out",
        "advantage",
        given(lambda reward, group: (reward, group * 0)),
    ),
    Break(
        "zero",
        "equal rewards left to rounding",
        "leave_one_out",
        "advantage",
        per_group(lambda x: x - (x.sum() - x) / (len(x) - 1)),
    ),
]
