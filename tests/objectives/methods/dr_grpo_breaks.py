"""Mistakes that one could make in Dr. GRPO."""

from tests.objectives.breaks import Break, instead, longest_response, negated, per_group, responses, result

BREAKS = [
    Break("sign", "mean minus reward", "group_center", "advantage", result(negated)),
    Break(
        "denominator",
        "the deviation divides",
        "group_center",
        "advantage",
        per_group(lambda x: (x - x.mean()) / (x.std() + 1e-6)),
    ),
    Break("denominator", "the longest response divides", "constant_length", "coefficients", instead(longest_response)),
    Break(
        "scope",
        "empty responses count",
        "constant_length",
        "coefficients",
        lambda original: (
            lambda self, batch, counted: original(self, batch, counted) * responses(batch) / len(batch.mask)
        ),
    ),
]
