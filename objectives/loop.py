"""The updates on the rollouts of a step, in order: rows, passes, whether the policy has moved, and their plans.

    step = Loop(objective, minibatches).begin(batch, state)
    for update in step.updates():
        plan = step.plan(update, statistics)
        ...                                     # objective.loss(plan, rows, logp, entropy) of each micro-batch, a step
    state = step.prepared.state

Who runs it brings forward passes, optimiser and processes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from objectives.batch import Batch, Prepared, TokenBatch
from objectives.lazy import Tensor, torch, without_gradients
from objectives.objective import Objective
from objectives.plan import Plan

Statistics = Callable[[], tuple[Tensor, Tensor | None]]
"""Gives log-probs and entropies [M, T] of a mini-batch's rows under the policy as it is now; no gradient."""


@dataclass(frozen=True)
class Update:
    """One optimiser update of a step."""

    number: int
    """In the step, from 0."""
    pass_number: int
    """The update pass, from 0."""
    part: int
    """The mini-batch of the pass, from 0."""
    moved: bool
    """Whether the policy differs from the one that sampled."""


@dataclass(frozen=True)
class Loop:
    """How an objective goes through the rollouts of a step: every pass has `minibatches` updates."""

    objective: Objective
    minibatches: int = 1
    moved: bool = False
    """Whether the policy differs from the one that sampled before the first update already."""
    old_of_sampler: bool = False
    """Whether the old statistics are what the sampler said of itself, which the policy's are only nearly."""
    scores_first: bool = False
    """Whether the plan of the first update takes a forward pass, too: the sampler's do not serve as current ones."""

    def __len__(self) -> int:
        return self.objective.pass_count * self.minibatches

    @property
    def needs(self) -> frozenset[str]:
        """Fields of the batch that are read."""
        return self.objective.requires(on_policy=not self.moved and not self.old_of_sampler and len(self) == 1)

    def update(self, number: int) -> Update:
        """The update of that number."""
        return Update(number, *divmod(number, self.minibatches), moved=self.moved or number > 0)

    def is_scored(self, update: Update) -> bool:
        """Whether an update's plan takes a forward pass over its mini-batch, to read the policy as it is by then."""
        return self.objective.reads_current and (update.moved or self.scores_first)

    def begin(self, batch: TokenBatch, state: Mapping[str, Mapping[str, float]] | None = None) -> "Step":
        """Prepares the rollouts of a step; `state` is that of the last one's controllers."""
        prepared = self.objective.prepare(self._with_current(batch, self.moved), state)
        return Step(self, prepared, self.objective.passes(prepared))

    @without_gradients
    def plan(
        self,
        update: Update,
        minibatch: Prepared,
        statistics: Statistics | None = None,
        micro_batch: Callable[[], Tensor] | None = None,
    ) -> Plan:
        """The plan of a mini-batch, the rows [M] of all processes.

        `statistics` are asked for where the update `is_scored`, `micro_batch` for the number [M] of each row's
        micro-batch where a part works within these; without them the fields of the mini-batch count.
        """
        minibatch = self._with_current(minibatch, update.moved)
        if self.is_scored(update) and statistics is not None:
            logp, entropy = statistics()
            minibatch = minibatch.with_fields(logp=logp, entropy=entropy)
        if self.objective.reads_micro_batches and micro_batch is not None:
            minibatch = minibatch.with_fields(micro_batch=micro_batch())
        return self.objective.plan(minibatch)

    def _with_current(self, batch: Batch, moved: bool) -> Batch:
        """The batch with current statistics, unless the policy has `moved`: the old ones if it has no others."""
        if moved:
            return batch.with_fields(on_policy=False)
        logp = batch.logp_old if batch.logp is None else batch.logp
        entropy = batch.entropy_old if batch.entropy is None else batch.entropy
        return batch.with_fields(on_policy=not self.old_of_sampler, logp=logp, entropy=entropy)


@dataclass(frozen=True)
class Step:
    """The rollouts of a step, prepared, and its updates."""

    loop: Loop
    prepared: Prepared
    passes: Sequence[Prepared]

    @cached_property
    def rows(self) -> Sequence[Tensor]:
        """[M] int on the CPU for each mini-batch: its rows, ascending; groups are whole and in order."""
        return whole_groups(self.prepared.require("group", "mini-batches"), self.loop.minibatches)

    def updates(self) -> Iterator[Update]:
        """All of them, in order."""
        return map(self.loop.update, range(len(self.loop)))

    def plan(
        self, update: Update, statistics: Statistics | None = None, micro_batch: Callable[[], Tensor] | None = None
    ) -> Plan:
        """The plan of an update, as `Loop.plan` makes it of the rows of its mini-batch."""
        rows, batch = self.rows[update.part], self.passes[update.pass_number]
        device = batch.mask.device
        rows = rows.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else rows.to(device)
        return self.loop.plan(update, batch.rows(rows), statistics, micro_batch)


def derivatives(
    objective: Objective, plan: Plan, rows: Tensor | slice, logp: Tensor, entropy: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss of some rows of a plan, and its derivatives by log-prob and by entropy, at those [n, t] of the rows."""
    logp, entropy = (values.detach().clone().requires_grad_() for values in (logp, entropy))
    with torch.enable_grad():
        loss = objective.loss(plan, rows, logp, entropy)
    if not loss.requires_grad:
        return loss, torch.zeros_like(logp), torch.zeros_like(entropy)
    by_logp, by_entropy = torch.autograd.grad(loss, (logp, entropy), allow_unused=True, materialize_grads=True)
    return loss.detach(), by_logp, by_entropy


def whole_groups(group: Tensor, minibatches: int) -> list[Tensor]:
    """Groups [N] -> the rows of each mini-batch, ascending, on the CPU: whole groups, in the order of the batch."""
    group = group.cpu()
    groups = torch.tensor(list(dict.fromkeys(group.tolist())))
    return [torch.isin(group, part).nonzero()[:, 0] for part in groups.tensor_split(minibatches)]
