"""Mistakes that one could make in the entropy advantage."""

from tests.objectives.breaks import Break, always, instead, negated, result, with_negative

BREAKS = [
    Break("sign", "entropy taken off", "entropy_advantage", "weight", result(negated)),
    Break(
        "sign",
        "larger in size for both signs",
        "entropy_advantage",
        "weight",
        result(lambda w, batch: w * batch.advantage.sign()),
    ),
    Break("sign", "certainty rewarded", "entropy_advantage", "weight", with_negative("entropy")),
    Break("bound", "up to two thirds of the advantage", "entropy_advantage", "kappa", always(1.5)),
    Break(
        "bound",
        "no bound",
        "entropy_advantage",
        "weight",
        instead(lambda self, batch: self.alpha * (batch.entropy if self.planned else batch.entropy_old)),
    ),
    Break("scope", "entropy of the rollouts", "entropy_advantage", "source", always("old")),
    Break("additive", "a factor", "entropy_advantage", "additive", always(False)),
]
