"""The updates on the rollouts of a step, in order: rows, passes, whether the policy has moved, and their plans.

    step = Loop(objective, minibatches).begin(batch, state)
    for number, rows in enumerate(step.rows):
        plan = step.plan(number, statistics)
        ...                                     # objective.loss(plan, rows, logp, entropy) of each micro-batch, a step
    state = step.prepared.state

Who runs it brings forward passes, optimiser and processes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from objectives.batch import SCORED, Action, Batch, Prepared, Source, TokenBatch, fields_from
from objectives.objective import Objective, Plan
from objectives.ops import Tensor, torch, without_gradients

Statistics = Callable[[], tuple[Tensor, Tensor | None]]
"""Gives log-probs and entropies [M, T] of a mini-batch's rows under the policy as it is now; no gradient."""


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

    def has_moved(self, number: int) -> bool:
        """Whether the policy that an update meets, counted from 0, differs from the one that sampled."""
        return self.moved or number > 0

    def is_scored(self, number: int) -> bool:
        """Whether an update's plan takes a forward pass over its mini-batch, to read the policy as it is by then."""
        return self.objective.reads_current and (self.has_moved(number) or self.scores_first)

    def begin(self, batch: TokenBatch, state: Mapping[str, Mapping[str, float]] | None = None) -> "Step":
        """Prepares the rollouts of a step; `state` is that of the last one's controllers."""
        prepared = self.objective.prepare(self._with_current(batch, self.moved), state)
        return Step(self, prepared, self.objective.passes(prepared))

    @without_gradients
    def plan(
        self,
        number: int,
        minibatch: Prepared,
        statistics: Statistics | None = None,
        micro_batch: Callable[[], Tensor] | None = None,
    ) -> Plan:
        """The plan of an update, counted from 0, on a mini-batch: the rows [M] of all processes.

        `statistics` are asked for where the update `is_scored`, `micro_batch` for the number [M] of each row's
        micro-batch where a part works within these; without them the fields of the mini-batch count.
        """
        minibatch = self._with_current(minibatch, self.has_moved(number))
        if self.is_scored(number) and statistics is not None:
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
        """[M] int on the CPU for each update, in order: its rows, ascending; groups are whole and in order."""
        of_pass = whole_groups(self.prepared.require("group", "mini-batches"), self.loop.minibatches)
        return of_pass * len(self.passes)

    def plan(
        self, number: int, statistics: Statistics | None = None, micro_batch: Callable[[], Tensor] | None = None
    ) -> Plan:
        """The plan of an update, as `Loop.plan` makes it of the rows of its mini-batch."""
        rows, batch = self.rows[number], self.passes[number // self.loop.minibatches]
        device = batch.mask.device
        rows = rows.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else rows.to(device)
        return self.loop.plan(number, batch.rows(rows), statistics, micro_batch)


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


# ---- what is scored before the updates -------------------------------------------------------------------------------

_CURRENT = fields_from(Source.CURRENT)
"""Fields of the policy as an update meets it."""
POLICY_FIELDS = _CURRENT | fields_from(Source.OLD)
"""Fields of a batch that one forward pass of the policy over its rollouts fills."""
OTHER_FIELDS = fields_from(Source.REFERENCE, Source.TEACHER)
"""Fields that one forward pass of another model, or behind other prompts, fills."""


def step_scoring(
    objective: Objective, minibatches: int, moved: bool, by_engine: bool, sees_entropy: bool
) -> tuple[Loop, frozenset[str], frozenset[str]]:
    """The updates of a step, the fields scored before them, and the old statistics that are the engine's report.

    `moved`: an older policy, which cannot be scored any more, sampled the rollouts. `by_engine`: old log-probs are the
    engine's (`rollout.old_logp=engine`); `sees_entropy`: it reports entropies too. Fields that a plan reads of the
    current policy are scored by the plan itself, see `Loop.is_scored`.
    """
    of_engine = by_engine and not moved
    loop = Loop(objective, minibatches, moved, of_engine)
    needs, reads_entropy = loop.needs, not loop.needs.isdisjoint({"entropy_old", "entropy"})
    reported = frozenset({"logp_old", "entropy_old"} if reads_entropy and sees_entropy else {"logp_old"})
    if moved:
        return loop, needs & OTHER_FIELDS, reported
    scored = needs & fields_from(*SCORED)
    if not of_engine:
        return loop, scored, frozenset()
    if needs & (POLICY_FIELDS - _CURRENT) <= reported:  # else a pass over all rollouts fills the current ones as well
        lacks_entropy = reads_entropy and not sees_entropy
        loop = replace(loop, scores_first=objective.reads_current and (lacks_entropy or _compares_current(objective)))
        scored -= _CURRENT
    return loop, scored - reported, reported


def _compares_current(objective: Objective) -> bool:
    """Whether the plan of a mini-batch compares log-probs of the current policy with old ones or the sampler's."""
    read = [part.needs | part.reads_once_moved for part in objective.parts]
    return any("logp" in fields and not fields.isdisjoint({"logp_old", "logp_sampler"}) for fields in read)


def plans_by_report(loop: Loop, scored: frozenset[str]) -> bool:
    """Whether the first update is planned with what the engine reported in place of the current statistics."""
    return loop.old_of_sampler and not loop.scores_first and not scored & _CURRENT


# ---- metrics ---------------------------------------------------------------------------------------------------------

_NOTHING: Mapping[str, Tensor] = {}


class PartMetrics:
    """Sums over rows of mini-batches, on their device; they add up over micro-batches and processes.

    `tokens` that the loss sees, those `sampled` before selection, and their `mass`, the size of the advantage; `loss`;
    `kl` to the reference (k3); for each part `touched/PART/tokens`, `touched/PART/mass` and whatever else is measured
    of the tokens that it touched; with `overlaps` how many of them each other part touched too.
    """

    def __init__(self, objective: Objective, device: "torch.device", overlaps: bool = False) -> None:
        self.objective, self.overlaps = objective, overlaps
        self.dtype = torch.float32 if device.type == "mps" else torch.float64
        self.sums: dict[str, Tensor] = defaultdict(lambda: torch.zeros((), dtype=self.dtype, device=device))

    def add_plan(self, part: Plan, measures: Mapping[str, Tensor] = _NOTHING, whole: Plan | None = None) -> None:
        """Counts what is settled in a plan, of some of its rows; tokens and mass are those of `whole`, unless None."""
        batch = (whole or part).batch
        self.sums["tokens"] += batch.mask.sum()
        self.sums["sampled"] += batch.trace.of(Action.TOKENS)[0].value.sum()
        self.sums["mass"] += batch.advantage.abs().sum()
        self._count(part, part.touched, part.touched, measures)
        # All processes have the same sums, even those none of whose rows have a gradient.
        nothing = part.batch.advantage[:0]
        of_nothing = {name: values[:0] for name, values in measures.items()}
        self.add_rows(part.rows(slice(0), nothing.shape[1]), nothing, nothing.sum(), of_nothing)

    def add_rows(self, part: Plan, logp: Tensor, loss: Tensor, measures: Mapping[str, Tensor] = _NOTHING) -> None:
        """Counts the loss of a micro-batch, and what the clip and its modifiers touched there at `logp` [n, t].

        `measures` [n, t] or wider are summed over touched tokens.
        """
        self.sums["loss"] += loss
        touched = self.objective.touched(part, slice(None), logp)
        late = [name for name in touched if name not in part.touched]
        self._count(part, touched, late, measures)

    def add_kl(self, part: Plan, logp: Tensor) -> None:
        """Counts the KL to the reference of a micro-batch's tokens at `logp` [n, t]; nothing without a reference."""
        if part.batch.logp_ref is not None:
            width = logp.shape[1]
            difference = (part.batch.logp_ref[:, :width] - logp)[part.batch.mask[:, :width]]
            self.sums["kl"] += k3(difference).sum()

    def totals(self, reduce: Callable[[Tensor, str], Tensor]) -> dict[str, float]:
        """The sums of all processes; `reduce` adds up those of each, a tensor and the word "sum"."""
        names = sorted(self.sums)
        return dict(zip(names, reduce(torch.stack([self.sums[name] for name in names]), "sum").tolist(), strict=True))

    def _count(
        self, part: Plan, touched: Mapping[str, Tensor], names: Iterable[str], measures: Mapping[str, Tensor]
    ) -> None:
        measures = {"mass": part.batch.advantage.abs(), **measures}
        counted: set[str] = set()
        for name in names:
            tokens, width = touched[name], touched[name].shape[1]
            self.sums[f"touched/{name}/tokens"] += tokens.sum()
            for measure, values in measures.items():
                self.sums[f"touched/{name}/{measure}"] += (values[:, :width] * tokens).sum(dtype=self.dtype)
            counted.add(name)
            for other in touched.keys() - counted if self.overlaps else ():
                both = (tokens & touched[other]).sum()
                self.sums[f"touched/{name}/overlap/{other}"] += both
                self.sums[f"touched/{other}/overlap/{name}"] += both


def k3(difference: Tensor) -> Tensor:
    """[n] log-ratios -> r - 1 - log r, unbiased of the KL (k3: Schulman, "Approximating KL Divergence", 2020)."""
    return difference.expm1() - difference


def normalise(sums: Mapping[str, float]) -> dict[str, float]:
    """Of summed numbers: each part's share of sampled tokens and of mass, means over what it touched and per token.

    `loss` is left as it is; what is a mean over nothing is left out.
    """
    rest = dict(sums)
    tokens = rest.pop("tokens", 0.0)
    whole = {"tokens": max(1.0, rest.pop("sampled", tokens)), "mass": rest.pop("mass", 0.0) or 1.0}
    divided = {}
    for name, value in rest.items():
        divisor = 1.0 if name == "loss" else max(1.0, tokens)
        if name.startswith("touched/"):
            _, part, measure = name.split("/", 2)
            divisor = whole.get(measure, rest[f"touched/{part}/tokens"])
        if divisor:
            divided[name] = value / divisor
    return divided
