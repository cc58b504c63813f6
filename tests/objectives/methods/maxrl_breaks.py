"""Mistakes that one could make in MaxRL."""

from tests.objectives.breaks import Break, always, given, instead, negated, per_group, result

BREAKS = [
    Break("sign", "mean minus correctness", "mean_norm", "of", result(negated)),
    Break("denominator", "nothing divides", "mean_norm", "advantage", per_group(lambda x: x - x.mean())),
    Break(
        "denominator",
        "the deviation divides",
        "mean_norm",
        "advantage",
        per_group(lambda x: (x - x.mean()) / (x.std() + 1e-6)),
    ),
    Break("bound", "1e-4 added to the mean", "mean_norm", "eps", always(1e-4)),
    Break(
        "scope",
        "success of the whole batch",
        "mean_norm",
        "advantage",
        given(lambda reward, group: (reward, group * 0)),
    ),
    Break(
        "scope",
        "rewards, not correctness",
        "mean_norm",
        "of",
        instead(lambda self, batch: self.advantage(batch.reward, batch.group)),
    ),
]
