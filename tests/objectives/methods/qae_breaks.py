"""Mistakes that one could make in QAE."""

from tests.objectives.breaks import Break, always, given, instead, negated, per_group, result

BREAKS = [
    Break("sign", "quantile minus reward", "quantile_norm", "advantage", result(negated)),
    Break("bound", "median", "quantile_norm", "q", always(0.5)),
    Break("strictness", "interpolated", "quantile_norm", "kind", always("linear")),
    Break("strictness", "largest below", "quantile_norm", "_baseline", instead(lambda self, rewards: rewards.amin())),
    Break(
        "denominator",
        "std with ddof 0",
        "quantile_norm",
        "advantage",
        per_group(lambda x: (x - x.sort().values[-(-2 * len(x) // 5) - 1]) / (x.std(correction=0) + 1e-6)),
    ),
    Break(
        "scope",
        "quantile of the whole batch",
        "quantile_norm",
        "advantage",
        given(lambda reward, group: (reward, group * 0)),
    ),
]
