"""Mistakes that one could make in the likelihood of positive examples."""

from tests.objectives.breaks import Break, always, given, instead, negated, result

BREAKS = [
    Break("sign", "right answers unlearned", "positive_nll", "penalty", result(negated)),
    Break(
        "sign",
        "wrong answers imitated",
        "positive_nll",
        "coefficients",
        given(lambda batch, aggregate: (batch.with_fields(correct=1 - batch.correct), aggregate)),
    ),
    Break("bound", "weight of one", "positive_nll", "mu", always(1.0)),
    Break(
        "denominator",
        "mean over all tokens",
        "positive_nll",
        "coefficients",
        instead(
            lambda self, batch, aggregate: aggregate.coefficients(batch, batch.mask) * (batch.correct == 1)[:, None]
        ),
    ),
    Break("detach", "not differentiated", "positive_nll", "penalty", result(lambda penalty, *given: penalty.detach())),
]
