"""Which responses are trained on."""

from objectives.batch import TokenBatch
from objectives.kinds import Select
from objectives.lazy import Tensor, torch
from objectives.ops import group_index, group_is_constant
from objectives.part import parameter
from objectives.zoo import register


@register
class DynamicSampling(Select):
    """Drops groups whose responses are all correct or all wrong and samples further prompts in their place.

    Dynamic sampling of DAPO (Yu et al., arXiv:2503.14476, eq. 11): 0 < #correct < G.
    """

    name = "dynamic_sampling"
    paper = "arXiv:2503.14476"
    failure_modes = ("dead_groups", "zero_loss")
    reads = frozenset({"correct", "group"})
    refills = True

    def selects(self, batch: TokenBatch) -> Tensor:
        index, groups = group_index(batch.require("group", self.name))
        return ~group_is_constant(batch.require("correct", self.name), index, groups)

    def formula(self) -> str:
        return "only groups with 0 < #correct < G, refilled"


@register
class DynamicSamplingByReward(Select):
    """Drops groups whose responses earned the same in each reward and samples further prompts in their place.

    Dynamic sampling (arXiv:2503.14476) for several rewards: a group stays where any of them differs, as graded.

    An objective that reads rewards one by one, as gdpo does, learns from such a group though all its answers are right.
    """

    name = "dynamic_sampling_by_reward"
    paper = "arXiv:2503.14476"
    failure_modes = ("dead_groups", "zero_loss")
    reads = frozenset({"rewards", "group"})
    refills = True

    def selects(self, batch: TokenBatch) -> Tensor:
        index, groups = group_index(batch.require("group", self.name))
        columns = batch.require("rewards", self.name).unbind(1)
        return ~torch.stack([group_is_constant(column, index, groups) for column in columns]).all(0)

    def formula(self) -> str:
        return "only groups in which some R_k differs, refilled"


@register
class OverlongFilter(Select):
    """Leaves truncated responses out of the loss; their rewards still count in the group's statistics.

    Overlong filtering of DAPO (Yu et al., arXiv:2503.14476, section 3.4).

    Open in the paper: what the loss then divides by; here, the tokens and responses that are left (TRL counts all rows,
    but only the tokens that are left).
    """

    name = "overlong_filter"
    paper = "arXiv:2503.14476"
    failure_modes = ("truncation",)
    reads = frozenset({"truncated"})

    def selects(self, batch: TokenBatch) -> Tensor:
        return ~batch.require("truncated", self.name)

    def formula(self) -> str:
        return "without truncated responses"


@register
class AnswerFilter(Select):
    """Trains on right answers, or on wrong ones, alone.

    Positive or negative samples alone (Zhu et al., arXiv:2506.01347): right answers, or wrong ones, are left out.

    A response that is left out leaves the denominators as well. The advantages of the others are those of the whole
    group.
    """

    name = "answer_filter"
    paper = "arXiv:2506.01347"
    reads = frozenset({"correct"})
    keep: str = parameter("right", ("right", "wrong", "all"), "which answers are trained on")

    def selects(self, batch: TokenBatch) -> Tensor:
        right = batch.right(self.name)
        return {"right": right, "wrong": ~right, "all": torch.ones_like(right)}[self.keep]

    def formula(self) -> str:
        return f"{self.keep} answers only" if self.keep != "all" else "all answers"


@register
class LiveOnly(Select):
    """Leaves tokens whose advantage is exactly 0 out of the loss, its denominators and penalties; nothing is refilled.

    prime-rl's default (`orchestrator.train.filter_zero_advantages`, PrimeIntellect-ai/prime-rl@559b447
    src/prime_rl/orchestrator/train_sink.py:36-61, 360-365; docs/algorithms.md:461).

    Groups of equal rewards teach nothing, but they dilute means over tokens, and their penalties hold the policy back.
    What an environment wrote in such a response is still learnt where a part learns it. The advantage is the one before
    weights.
    """

    name = "live_only"
    failure_modes = ("dead_groups",)
    late = True

    def selects(self, batch: TokenBatch) -> Tensor:
        return batch.require("advantage", self.name) != 0

    def formula(self) -> str:
        return "only tokens with A != 0"
