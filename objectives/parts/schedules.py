"""Passes over the rollouts of a step."""

from objectives.batch import Prepared
from objectives.kinds import Schedule
from objectives.part import parameter
from objectives.zoo import register


@register
class SinglePass(Schedule):
    """One update pass over the rollouts.

    The schedule of nearly all methods.
    """

    name = "single_pass"
    paper = "arXiv:1707.06347"

    def passes(self, batch: Prepared) -> tuple[Prepared, ...]:
        return (batch,)

    def formula(self) -> str:
        return "one pass over the mini-batches"


@register
class Epochs(Schedule):
    """Several update passes over all of the rollouts.

    PPO's epochs (Schulman et al., arXiv:1707.06347, Algorithm 1; GRPO's mu, arXiv:2402.03300): further passes.

    The rollouts of a step are passed over `count` times, mini-batch after mini-batch in the same order; the ratio is to
    the policy that sampled, so that only the first update of the first pass is on-policy. What is settled once per step
    (rewards, selection, advantages, weights of the rollouts) stays; what reads the current policy is settled again for
    each mini-batch of each pass. Lopti's two passes are another thing: each token is in one of them. Both are
    schedules, and an objective has one of those. A surrogate without a ratio (reinforce) does not know that the policy
    has moved.
    """

    name = "epochs"
    paper = "arXiv:1707.06347"
    count: int = parameter(2, "[1, 64]", "mu, how often the rollouts are passed over")

    @property
    def pass_count(self) -> int:
        return self.count

    def passes(self, batch: Prepared) -> tuple[Prepared, ...]:
        return (batch,) * self.count

    def formula(self) -> str:
        return f"{self.count} passes over the mini-batches"
