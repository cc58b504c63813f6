"""An objective: parts in stage order, planned over whole mini-batches, summed over micro-batches."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any, TypeVar

from objectives.batch import Action, Batch, Prepared, TokenBatch, Trace, over_scope
from objectives.equation import written_equation
from objectives.errors import ObjectiveError, shown
from objectives.expression import Term, canonical, compose, in_order, read_terms, remove, unused, with_remedy
from objectives.ops import Tensor, torch, without_gradients
from objectives.part import (
    Advantage,
    Aggregate,
    Bounds,
    Mask,
    Modifier,
    Part,
    Penalty,
    Ratio,
    Reward,
    Schedule,
    Select,
    Stage,
    Surrogate,
    Weight,
    in_working_order,
)
from objectives.zoo import is_registered

# ---- the plan of a mini-batch ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """Everything about one optimiser mini-batch that looks at more than one token.

    The loss is the sum over tokens of `policy_coefficient` [N, T] times the surrogate's loss, plus each penalty times
    its `penalty_coefficients` [N, T]; all are zero outside the tokens that take part.
    """

    batch: Prepared
    """The mini-batch; its trace says what every part did to it."""
    policy_coefficient: Tensor
    penalty_coefficients: Mapping[str, Tensor]
    bounds: Bounds
    unmodified: Mapping[str, Bounds]
    """Modifier -> the bounds without it."""
    extra: Mapping[str, Tensor]
    """What else the surrogate takes: [N] or [N, T] by name."""
    follows_advantage: bool = True
    """Whether a token without advantage has no policy gradient."""

    @property
    def touched(self) -> Mapping[str, Tensor]:
        """Part -> [N, T] bool: tokens that parts of stages 1, 2, 4, 7, 9 and 10 acted on."""
        return self.batch.trace.touched

    @property
    def active(self) -> Tensor:
        """[N] bool: rows whose gradient is not zero for certain."""
        policy = self.policy_coefficient * self.batch.advantage if self.follows_advantage else self.policy_coefficient
        active = (policy != 0).any(1)
        for coefficients in self.penalty_coefficients.values():
            active = active | (coefficients != 0).any(1)
        return active

    @cached_property
    def read(self) -> Tensor:
        """[N, T] bool: tokens whose log-prob the loss reads: those of the mask, and observations that a part learns."""
        read = self.batch.mask
        for coefficients in self.penalty_coefficients.values():
            read = read | (coefficients != 0)
        return read

    def rows(self, rows: Tensor | slice, width: int) -> "Plan":
        """The part of some rows and their first `width` positions.

        Raises ObjectiveError if their responses are longer.
        """
        if isinstance(rows, slice) and rows == slice(None) and width == self.batch.mask.shape[1]:
            return self
        batch = self.batch.rows(rows)
        if width < batch.mask.shape[1]:
            if self.read[rows][:, width:].any():
                raise ObjectiveError(f"the log-probs have {width} positions, but the rows' responses are longer")
            batch = batch.first_tokens(width)

        def part(tokens: Tensor) -> Tensor:
            return tokens[rows][:, :width] if tokens.dim() == 2 else tokens[rows]

        return replace(
            self,
            batch=batch,
            policy_coefficient=part(self.policy_coefficient),
            penalty_coefficients={name: part(tokens) for name, tokens in self.penalty_coefficients.items()},
            bounds=self.bounds.rows(rows, width),
            unmodified={name: bounds.rows(rows, width) for name, bounds in self.unmodified.items()},
            extra={name: part(values) for name, values in self.extra.items()},
        )


# ---- the objective ---------------------------------------------------------------------------------------------------

Kind = TypeVar("Kind", bound=Part)
_WITHOUT_BOUNDS = ("token_ratio", "unclipped", "reinforce")
"""Names of the ratio of a token and of surrogates that bound nothing."""


def parse(expression: str, imports: bool = True) -> "Objective":
    """The objective that an expression names, e.g. `stapo(tau_p=0.005)+clip_higher`.

    `my_module:part` has `my_module` imported. An expression out of a file that others may have written is
    read with `imports=False`, which knows what is registered already. Raises ObjectiveError, and nothing else, for
    whatever cannot be read or composed.
    """
    if not isinstance(expression, str):
        raise ObjectiveError(f"an objective is written as text, not as a {type(expression).__name__}")
    terms = read_terms(expression)
    unknown = next((term.name for term in terms if not imports and not is_registered(term.name)), None)
    if unknown is not None:
        raise ObjectiveError(f"{shown(unknown)} is not registered, and what names it may not have it imported")
    return Objective(compose(terms), tuple(terms))


@dataclass(frozen=True, eq=False)
class Objective:
    """A composition of parts. Immutable; `key`, equality and hash depend on the parts alone."""

    parts: tuple[Part, ...]
    typed: tuple[Term, ...] = ()
    """What it was composed from; nothing if it was made of parts. It has a say in `expression` and `unused` alone."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", in_order(self.parts))
        named = {part.name: part for part in self.parts}
        for part in self.parts:
            if required := part.required_parameters:
                values = ",".join(f"{name}=NUMBER" for name in required)
                raise ObjectiveError(
                    f"{part.name} needs {' and '.join(required)}, for which we know no published value: "
                    f"give it, as in {part.qualified_name}({values})"
                )
            part.check(named)

    @cached_property
    def key(self) -> str:
        """What it is: its parts in stage order with every parameter, and their digest; nothing else has a say in it.

        Folders, grids and tables know objectives by it. `expression` is for people.
        """
        written = " . ".join(part.identity for part in self.parts)
        return f"{written} #{blake2b(written.encode(), digest_size=5).hexdigest()}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Objective) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @cached_property
    def expression(self) -> str:
        """The shortest way to write it with what is registered now; for people."""
        return canonical(self.parts, self.typed)

    @cached_property
    def unused(self) -> tuple[str, ...]:
        """What was typed and has no effect, a line each."""
        return unused(self.typed) if self.typed else ()

    @cached_property
    def notices(self) -> tuple[str, ...]:
        """What was typed and has no effect, and what may not be what its name suggests, a line each."""
        named = {part.name: part for part in self.parts}
        lines = (line for part in self.parts for line in part.notices(named))
        return (*self.unused, *(with_remedy(line, self.typed) for line in lines))

    def __str__(self) -> str:
        return self.expression

    @cached_property
    def idle_on_policy(self) -> tuple[str, ...]:
        """Names of the parts that cannot act in updates of the policy that sampled; a plain ratio is no such part."""
        is_open = self.the(Surrogate).acts_on_policy
        idle = [part for part in self.parts if not part.acts_on_policy and not (is_open and isinstance(part, Modifier))]
        return tuple(part.name for part in idle if part.name not in _WITHOUT_BOUNDS)

    @cached_property
    def on_policy(self) -> "Objective":
        """The objective that has the same updates of the policy that sampled, and no part that cannot act in them."""
        plain, idle = parse("grpo"), {*self.idle_on_policy, *_WITHOUT_BOUNDS}
        exclusive = [kind for kind in (Ratio, Surrogate) if self.the(kind).name in idle]
        kept = [part for part in self.parts if part.name not in idle]
        return Objective((*kept, *(plain.the(kind) for kind in exclusive)))

    def all(self, kind: type[Kind]) -> list[Kind]:
        """The parts of one kind."""
        return [part for part in self.parts if isinstance(part, kind)]

    def the(self, kind: type[Kind]) -> Kind:
        """The one part of a kind whose stage holds one."""
        return self.all(kind)[0]

    def without(self, part_name: str) -> "Objective":
        """The same less one part; a stage that holds one falls back to what grpo has there, as in an expression.

        Raises ObjectiveError if the part is not there, or if it is grpo's and its stage needs one.
        """
        parts = {part.name: part for part in self.parts}
        if part_name not in parts:
            raise ObjectiveError(f"cannot remove {part_name}: it is not there; the objective has {', '.join(parts)}")
        remove(parts, part_name)
        return Objective(tuple(parts.values()))

    def requires(self, on_policy: bool) -> frozenset[str]:
        """Fields of the batch that are read; `on_policy`: if every update is one of the policy that sampled."""
        always = frozenset[str]().union(*(part.needs for part in self.parts))
        return always if on_policy else always.union(*(part.reads_once_moved for part in self.parts))

    @property
    def needs(self) -> frozenset[str]:
        """Every field of the batch that it may read."""
        return self.requires(on_policy=False)

    @property
    def needs_entropy_gradient(self) -> bool:
        """Whether the loss differentiates the entropy."""
        return any(part.needs_entropy_gradient for part in self.all(Penalty))

    @property
    def learns_observations(self) -> bool:
        """Whether the loss differentiates the log-probs of what an environment wrote."""
        return any(part.learns_observations for part in self.all(Penalty))

    @property
    def reads_current(self) -> bool:
        """Whether the plan of a mini-batch reads statistics of the current policy."""
        return bool(self.needs & {"logp", "entropy"})

    @property
    def reads_micro_batches(self) -> bool:
        """Whether some part works within each micro-batch, so that the result depends on how the batch is cut."""
        return "micro_batch" in self.needs

    @property
    def refills(self) -> bool:
        """Whether dropped groups should be replaced by sampling further prompts."""
        return any(part.refills for part in self.all(Select))

    @property
    def minimum_group(self) -> int:
        """The smallest number of responses per prompt that all parts have a meaning for."""
        return max(part.minimum_group for part in self.parts)

    @property
    def learning_group(self) -> int:
        """The smallest number of responses per prompt with which all parts can tell responses apart."""
        return max(part.learning_group for part in self.parts)

    @property
    def pass_count(self) -> int:
        """Update passes over the rollouts of a step."""
        return self.the(Schedule).pass_count

    # ---- once per rollout step -----------------------------------------------------------------------------------

    @without_gradients
    def select(self, batch: TokenBatch) -> TokenBatch:
        """Stages 1 and 2: shaped `reward`, and `selected` rows; `mask` and the rows themselves stay.

        Late parts of stage 1 shape rewards in `prepare`. A batch with an `advantage` keeps its reward.
        """
        if batch.selected is not None:
            return batch
        early = [part for part in self.all(Reward) if not part.late and batch.advantage is None]
        selectors = [part for part in self.all(Select) if not part.late]
        require_read(batch, [*early, *selectors])
        batch = shaped(batch.record("", Action.TOKENS, batch.mask), early)
        selected = torch.ones_like(batch.mask[:, 0])
        for selector in selectors:
            chosen = selector.selects(batch)
            batch = batch.record(selector.name, Action.SELECT, chosen)
            selected = selected & chosen
        return batch.with_fields(selected=selected)

    @without_gradients
    def prepare(self, batch: TokenBatch, state: Mapping[str, Mapping[str, float]] | None = None) -> Prepared:
        """Stages 1 to 4 over the whole rollout batch: `advantage` [N, T], and `mask` less the rows dropped.

        An `advantage` given by the caller stands in for stages 1 and 3. `state` is `Prepared.state` of the last step.
        """
        if isinstance(batch, Prepared):
            raise ObjectiveError("the batch is prepared already: its weights are in the advantage")
        selected = self.select(batch)
        advantage, trace = self._advantages(selected)
        kept = selected.mask & selected.require("selected", "prepare")[:, None]
        trace = trace.record(self.the(Advantage).name, Action.ADVANTAGE, advantage)
        trace = trace.record("", Action.TOKENS, kept)
        prepared = Prepared.of(selected, mask=kept, advantage=selected.like_tokens(advantage), trace=trace)
        for selector in (part for part in self.all(Select) if part.late):
            chosen = selector.selects(prepared)
            trace = prepared.trace.record(selector.name, Action.SELECT, chosen)
            kept = prepared.mask & chosen
            prepared = prepared.with_fields(mask=kept, trace=trace.record("", Action.TOKENS, kept))
        prepared = prepared.blank_outside()
        weights = [part for part in self.all(Weight) if not part.planned]
        require_read(prepared, weights)
        return weighted(self._controlled(prepared, state or {}), weights)

    def _controlled(self, batch: Prepared, state: Mapping[str, Mapping[str, float]]) -> Prepared:
        """The batch with the state of every controller for this step."""
        trace = batch.trace
        for part in self.parts:
            for name, value in part.control(batch, state.get(part.name, {})).items():
                trace = trace.record(part.name, Action.STATE, value, name)
        return batch if trace is batch.trace else batch.with_fields(trace=trace)

    @without_gradients
    def advantages(self, batch: TokenBatch) -> Tensor:
        """Stage 3 of a rollout batch: [N], or [N, T] where a part tells tokens apart; weights come later.

        Groups that stage 2 dropped whole are no part of the batch for it.
        """
        return self._advantages(self.select(batch))[0]

    def _advantages(self, batch: TokenBatch) -> tuple[Tensor, Trace]:
        """Stage 3, and the trace with the late parts of stage 1 before it."""
        if batch.advantage is not None:
            return batch.advantage, batch.trace
        part = self.the(Advantage)
        batch = shaped(batch, [shaper for shaper in self.all(Reward) if shaper.late])
        group = batch.require("group", part.name)
        size = torch.unique(group, return_counts=True)[1].min() if len(group) else part.minimum_group
        if size < part.minimum_group:
            raise ObjectiveError(f"{part.name} needs at least {part.minimum_group} responses per prompt, not {size}")
        require_read(batch, [part])
        present = torch.isin(group, group[batch.require("selected", part.name)])
        return part.of(batch.with_fields(mask=batch.mask & present[:, None]).blank_outside()), batch.trace

    def passes(self, batch: Prepared) -> Sequence[Prepared]:
        """The batch of each update pass."""
        _check_prepared(batch, "passes")
        schedule = self.the(Schedule)
        require_read(batch, [schedule])
        return [with_pass_recorded(update, schedule.name) for update in schedule.passes(batch)]

    # ---- once per optimiser mini-batch ---------------------------------------------------------------------------

    @without_gradients
    def plan(self, minibatch: Prepared) -> Plan:
        """Stages 4 (current statistics), 6 (bounds), 7 and 8 over a whole mini-batch, all ranks together.

        Rows: N of the mini-batch. Where a part reads current statistics, `logp` and `entropy` must be there.
        """
        _check_prepared(minibatch, "plan")
        require_read(minibatch, [part for part in self.parts if part.stage > Stage.ADVANTAGE])
        batch, weights = minibatch.blank_outside(), [part for part in self.all(Weight) if part.planned]
        batch = weighted(batch, weights) if weights else batch
        surrogate, aggregate, dtype = self.the(Surrogate), self.the(Aggregate), batch.advantage.dtype
        changes = self._bounds(batch)
        bounds, trace = changes[-1][1], with_bounds_recorded(batch, changes)
        if any(mask.spares_clipped for mask in self.all(Mask)):
            ratio = self.the(Ratio).ratio(batch, batch.require("logp", "plan"))
            batch = batch.with_fields(clipped=batch.mask & surrogate.clips(ratio, batch.advantage, bounds))
        counted = batch.mask
        for mask in self.all(Mask):
            keeps = over_scope(batch, getattr(mask, "scope", ""), mask.keeps)
            trace = trace.record(mask.name, Action.MASK, keeps)
            counted = counted & keeps if mask.shrinks_denominator else counted
        trace = trace.record(aggregate.name, Action.COEFFICIENT, aggregate.coefficients(batch, counted).to(dtype))
        for penalty in self.all(Penalty):
            tokens = batch.observed(penalty.name) if penalty.learns_observations else batch.mask
            coefficients = torch.where(tokens, penalty.coefficients(batch, aggregate).to(dtype), 0.0)
            trace = trace.record(penalty.name, penalty_action(penalty), coefficients)
        return Plan(
            batch=batch.with_fields(trace=trace),
            policy_coefficient=trace.policy_coefficient,
            penalty_coefficients=trace.penalty_coefficients,
            bounds=bounds,
            unmodified={part.name: self._bounds(batch, without=part)[-1][1] for part in self.all(Modifier)},
            extra=surrogate.extra(batch),
            follows_advantage=surrogate.follows_advantage,
        )

    def _bounds(self, batch: Prepared, without: Modifier | None = None) -> list[tuple[Surrogate | Modifier, Bounds]]:
        """Who sets the bounds of a mini-batch, in order, each with the bounds as it leaves them."""
        surrogate = self.the(Surrogate)
        changes: list[tuple[Surrogate | Modifier, Bounds]] = [(surrogate, surrogate.bounds(batch))]
        for modifier in self.all(Modifier):
            if modifier is not without:
                changes.append((modifier, modifier.modify(changes[-1][1], batch)))
        return changes

    # ---- once per micro-batch ------------------------------------------------------------------------------------

    def loss(self, plan: Plan, rows: Tensor | slice, logp: Tensor, entropy: Tensor | None = None) -> Tensor:
        """The loss of some rows of a plan, a scalar to differentiate; the losses of all rows sum to the mini-batch's.

        `logp` [n, t] and `entropy` [n, t] are the current policy's, with gradient, for those rows and the first t <= T
        positions; whatever is beyond the mask is ignored, but for what an environment wrote where a part learns it.
        """
        part = plan.rows(rows, logp.shape[1])
        everywhere, logp = logp, torch.where(part.batch.mask, logp, 0.0)
        total = (part.policy_coefficient * self._surrogate(part, logp, part.bounds)).sum()
        if self.all(Penalty):
            entropy = None if entropy is None else torch.where(part.batch.mask, entropy, 0.0)
            for penalty in self.all(Penalty):
                coefficients = part.penalty_coefficients[penalty.name]
                seen = torch.where(coefficients != 0, everywhere, 0.0) if penalty.learns_observations else logp
                total = total + (coefficients * penalty.penalty(part.batch, seen, entropy)).sum()
        return total

    def _surrogate(self, part: Plan, logp: Tensor, bounds: Bounds) -> Tensor:
        """[n, t] the surrogate's loss of each token."""
        ratio = self.the(Ratio).ratio(part.batch, logp)
        return self.the(Surrogate).loss(ratio, logp, part.batch.advantage, bounds, part.extra)

    @without_gradients
    def touched(self, plan: Plan, rows: Tensor | slice, logp: Tensor) -> dict[str, Tensor]:
        """Part name -> [n, t] bool: response tokens of some rows that each part acted on, at log-probs `logp` [n, t].

        A surrogate acts where it cuts off the ratio's gradient, a modifier where it changes the gradient.
        """
        part = plan.rows(rows, logp.shape[1])
        mask, surrogate = part.batch.mask, self.the(Surrogate)
        logp = torch.where(mask, logp, 0.0)
        ratio = self.the(Ratio).ratio(part.batch, logp)
        bounded = surrogate.bounded(ratio, part.batch.advantage, part.bounds)
        touched = {**part.touched, surrogate.name: mask & bounded}
        if part.unmodified:
            gradient = self._surrogate_gradient(part, logp, part.bounds)
            for name, bounds in part.unmodified.items():
                touched[name] = mask & (gradient != self._surrogate_gradient(part, logp, bounds))
        return touched

    def _surrogate_gradient(self, part: Plan, logp: Tensor, bounds: Bounds) -> Tensor:
        with torch.enable_grad():
            logp = logp.detach().clone().requires_grad_()
            (gradient,) = torch.autograd.grad(self._surrogate(part, logp, bounds).sum(), logp)
        return gradient

    # ---- for tests, teaching and outside oracles -----------------------------------------------------------------

    def token_gradients(self, batch: TokenBatch) -> list[Tensor]:
        """For each pass, [N, T]: minus the derivative of the loss with respect to `logp`.

        The whole batch is one mini-batch, evaluated at `batch.logp`, or at `logp_old` (and `entropy_old`) if that is
        None. Taken by autograd through the real `prepare`, `plan` and `loss`.
        """
        if batch.logp is None:
            batch = batch.with_fields(logp=batch.require("logp_old", "token_gradients"), entropy=batch.entropy_old)
        return [self.token_gradient(self.plan(update)) for update in self.passes(self.prepare(batch))]

    def token_gradient(self, plan: Plan) -> Tensor:
        """[N, T]: minus the derivative of a mini-batch's loss with respect to `logp`, at `plan.batch.logp`."""
        with torch.enable_grad():
            logp = plan.batch.require("logp", "token_gradient").detach().clone().requires_grad_()
            (gradient,) = torch.autograd.grad(self.loss(plan, slice(None), logp, plan.batch.entropy), logp)
        return -gradient

    @property
    def equation(self) -> str:
        """The loss with the actual numbers in it, and then what I, r, A, R, groups and passes in it are.

        Names of what is read (p, H, ...) are as the parts' formulas say.
        """
        return written_equation(self.parts)

    def describe(self) -> dict[str, Any]:
        """What the objective is, as plain data: expression, equation, needs, and its parts with what they declare."""
        return {
            "expression": self.expression,
            "equation": self.equation,
            "parts": [
                {
                    "stage": part.stage.name.lower(),
                    "term": part.term(),
                    "formula": part.formula(),
                    "paper": part.paper,
                    "parameters": part.parameters(),
                }
                for part in self.parts
            ],
            "needs": sorted(self.needs),
            "entropy_gradient": self.needs_entropy_gradient,
            "passes": self.pass_count,
        }


def _check_prepared(batch: TokenBatch, method: str) -> None:
    if not isinstance(batch, Prepared):
        raise ObjectiveError(f"{method} takes a prepared batch: objective.{method}(objective.prepare(batch))")


# ---- what the stages do to a batch, and its trace -------------------------------------------------------------------


def require_read(batch: TokenBatch, parts: Iterable[Part]) -> None:
    """Raises ObjectiveError for the first field that a part reads and the batch lacks."""
    for part in parts:
        batch.require_all(part.needs if batch.on_policy else part.needs | part.reads_once_moved, part.name)


def shaped(batch: Batch, shapers: Sequence[Reward]) -> Batch:
    """The batch whose reward [N], or [N, T], these parts have shaped."""
    require_read(batch, shapers)
    if batch.reward is None:
        return batch
    reward, trace = batch.reward.to(torch.promote_types(batch.reward.dtype, torch.float32)), batch.trace
    if not shapers:
        return batch.with_fields(reward=reward)
    present = batch.blank_outside()
    for part in shapers:
        shaping = part.shaping(present)
        trace = trace.record(part.name, Action.REWARD, shaping)
        if max(reward.dim(), shaping.dim()) == 2:
            reward, shaping = batch.like_tokens(reward), batch.like_tokens(shaping)
        reward = reward + shaping
    return batch.with_fields(reward=reward, trace=trace)


def weighted(batch: Prepared, weights: Sequence[Weight]) -> Prepared:
    advantage, trace = batch.advantage, batch.trace
    for part in in_working_order(weights):
        weight = over_scope(batch, getattr(part, "scope", ""), part.weight)
        trace = trace.record(part.name, Action.ADD if part.additive else Action.WEIGH, weight)
        advantage = advantage + weight if part.additive else advantage * weight
    return batch.with_fields(advantage=torch.where(batch.mask, advantage, 0.0), trace=trace)


def with_pass_recorded(update: Prepared, schedule: str) -> Prepared:
    trace = update.trace
    for name, tokens in (("policy", update.policy_mask), ("penalty", update.penalty_mask)):
        trace = trace if tokens is None else trace.record(schedule, Action.PASS, tokens, name)
    return update if trace is update.trace else update.with_fields(trace=trace)


def with_bounds_recorded(batch: Prepared, changes: Iterable[tuple[Surrogate | Modifier, Bounds]]) -> Trace:
    """The trace with the bounds that each part has set, as it left them."""
    trace = batch.trace
    for part, bounds in changes:
        for name in sorted(part.sets) if isinstance(part, Modifier) else ("low", "high", "cap"):
            bound = getattr(bounds, name)
            if isinstance(bound, Tensor) and bound.dim():
                bound = bound.expand(batch.mask.shape)
            if isinstance(bound, Tensor) or math.isfinite(bound):
                trace = trace.record(part.name, Action.BOUND, bound, name)
    return trace


def penalty_action(penalty: Penalty) -> Action:
    """By which the trace knows the coefficients of a penalty."""
    if penalty.learns_observations:
        return Action.OBSERVATION
    return Action.CHOICE if penalty.chooses else Action.PENALTY
