"""An objective: parts in stage order, planned over whole mini-batches, summed over micro-batches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any, TypeVar

import torch
from torch import Tensor

from objectives.batch import TOKEN_FIELDS, TokenBatch
from objectives.errors import ObjectiveError
from objectives.expression import canonical, compose, in_order, read_terms, remove
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
    Surrogate,
    Weight,
)

Kind = TypeVar("Kind", bound=Part)


def parse(expression: str) -> "Objective":
    """The objective that an expression names, e.g. `stapo(tau_p=0.005)+clip_higher`.

    Raises ObjectiveError, and nothing else, for whatever cannot be read or composed.
    """
    if not isinstance(expression, str):
        raise ObjectiveError(f"an objective is written as text, not as a {type(expression).__name__}")
    return Objective(compose(read_terms(expression)))


@dataclass(frozen=True)
class Plan:
    """Everything about one optimiser mini-batch that looks at more than one token, settled before any gradient.

    The loss is the sum over tokens of `policy_coefficient` [N, T] times the surrogate's loss plus `penalty_coefficient`
    [N, T] times the penalties; both are zero outside the tokens that take part.
    """

    batch: TokenBatch
    policy_coefficient: Tensor
    penalty_coefficient: Tensor
    bounds: Bounds
    touched: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def active(self) -> Tensor:
        """[N] bool: rows whose gradient is not zero for certain."""
        assert self.batch.advantage is not None
        return ((self.policy_coefficient * self.batch.advantage) != 0).any(1) | (self.penalty_coefficient != 0).any(1)


@dataclass(frozen=True, eq=False)
class Objective:
    """A composition of parts. Immutable; `key`, equality and hash depend on the parts alone."""

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", in_order(self.parts))

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
        return canonical(self.parts)

    def __str__(self) -> str:
        return self.expression

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

    def requires(self, updates: int) -> frozenset[str]:
        """Optional fields of the batch that are read when a rollout step makes that many optimiser updates."""
        always = frozenset[str]().union(*(part.needs for part in self.parts))
        return always if updates == 1 else always.union(*(part.reads_once_moved for part in self.parts))

    @property
    def needs(self) -> frozenset[str]:
        """Every optional field that it may read."""
        return self.requires(updates=2)

    @property
    def needs_entropy_gradient(self) -> bool:
        """Whether the loss differentiates the entropy."""
        return any(part.needs_entropy_gradient for part in self.all(Penalty))

    @property
    def reads_current(self) -> bool:
        """Whether the plan of a mini-batch reads statistics of the current policy."""
        return bool(self.needs & {"logp", "entropy"})

    @property
    def reads_micro_batches(self) -> bool:
        """Whether some part works within each micro-batch, so that the result depends on how the batch is cut."""
        return any(getattr(part, "scope", None) == "microbatch" for part in self.parts)

    @property
    def refills(self) -> bool:
        """Whether dropped groups should be replaced by sampling further prompts."""
        return any(part.refills for part in self.all(Select))

    @property
    def minimum_group(self) -> int:
        """The smallest number of responses per prompt that all parts have a meaning for."""
        return max(part.minimum_group for part in self.parts)

    @property
    def pass_count(self) -> int:
        """Update passes over the rollouts of a step."""
        return self.the(Schedule).pass_count

    # ---- once per rollout step -----------------------------------------------------------------------------------

    @torch.no_grad()
    def select(self, batch: TokenBatch) -> TokenBatch:
        """Stages 1 and 2: shaped `reward`, and `selected` rows; `mask` and the rows themselves stay."""
        if batch.selected is not None:
            return batch
        self._require(batch, "reward", "correct", "truncated")
        touched = dict(batch.touched)
        reward = batch.reward
        if reward is not None:
            reward = reward.to(torch.promote_types(reward.dtype, torch.float32))
            for shaper in self.all(Reward):
                shaping = shaper.shaping(batch)
                touched[shaper.name] = batch.mask & batch.like_tokens(shaping != 0)
                reward = reward + shaping
        selected = torch.ones_like(batch.mask[:, 0])
        for selector in self.all(Select):
            chosen = selector.selects(batch)
            touched[selector.name] = batch.mask & ~batch.like_tokens(chosen)
            selected = selected & chosen
        return batch.with_fields(reward=reward, selected=selected, touched=touched)

    @torch.no_grad()
    def prepare(self, batch: TokenBatch, state: Mapping[str, Mapping[str, float]] | None = None) -> TokenBatch:
        """Stages 1 to 4 over the whole rollout batch: `advantage` [N, T], and `mask` less the rows dropped.

        An `advantage` [N] given by the caller stands in for stages 1 and 3. `state` is `batch.state` of the last step.
        """
        if batch.advantage is not None and batch.advantage.dim() == 2:
            raise ObjectiveError("the batch is prepared already: its advantage is per token")
        batch = self.select(batch)
        advantage = self._advantage(batch) if batch.advantage is None else batch.advantage
        assert batch.selected is not None
        mask = batch.mask & batch.selected[:, None]
        batch = _blank_outside(batch.with_fields(mask=mask, advantage=None))
        batch = batch.with_fields(advantage=batch.like_tokens(advantage))
        weights = self.all(Weight)
        states = {part.name: part.control(batch, (state or {}).get(part.name, {})) for part in weights}
        batch = batch.with_fields(state={name: dict(values) for name, values in states.items() if values})
        return _weighted(batch, [part for part in weights if not part.planned])

    def _advantage(self, batch: TokenBatch) -> Tensor:
        reward, group = batch.require("reward", "the objective"), batch.require("group", "the objective")
        part = self.the(Advantage)
        size = torch.unique(group, return_counts=True)[1].min() if len(group) else part.minimum_group
        if size < part.minimum_group:
            raise ObjectiveError(f"{part.name} needs at least {part.minimum_group} responses per prompt, not {size}")
        return part.advantage(reward, group)

    def passes(self, batch: TokenBatch) -> Sequence[TokenBatch]:
        """The prepared batch of each update pass."""
        return self.the(Schedule).passes(batch)

    # ---- once per optimiser mini-batch ---------------------------------------------------------------------------

    @torch.no_grad()
    def plan(self, minibatch: TokenBatch) -> Plan:
        """Stages 4 (current statistics), 6 (bounds), 7 and 8 over a whole prepared mini-batch, all ranks together.

        Rows: N of the mini-batch. Where a part reads current statistics, `logp` and `entropy` must be there.
        """
        self._require(minibatch, *TOKEN_FIELDS)
        if minibatch.require("advantage", "plan").dim() != 2:
            raise ObjectiveError("the batch is not prepared: its advantage is per response, not per token")
        batch = _weighted(_blank_outside(minibatch), [part for part in self.all(Weight) if part.planned])
        advantage = batch.require("advantage", "plan")
        touched = dict(batch.touched)
        kept, counted = batch.mask, batch.mask
        for mask in self.all(Mask):
            keeps = mask.keeps(batch)
            touched[mask.name] = batch.mask & ~keeps
            kept = kept & keeps
            counted = counted & keeps if mask.shrinks_denominator else counted
        aggregate = self.the(Aggregate)
        policy = _only(kept, batch.policy_mask)
        coefficient = aggregate.coefficients(batch, counted).to(advantage.dtype)
        penalty = torch.zeros_like(advantage)
        if self.all(Penalty):
            penalised = _only(batch.mask, batch.penalty_mask)
            penalty = torch.where(penalised, aggregate.coefficients(batch, batch.mask).to(advantage.dtype), 0.0)
        return Plan(batch, torch.where(policy, coefficient, 0.0), penalty, self._bounds(batch), touched)

    def _bounds(self, batch: TokenBatch) -> Bounds:
        bounds = self.the(Surrogate).bounds(batch)
        for modifier in self.all(Modifier):
            bounds = modifier.modify(bounds, batch)
        return bounds

    # ---- once per micro-batch ------------------------------------------------------------------------------------

    def loss(self, plan: Plan, rows: Tensor | slice, logp: Tensor, entropy: Tensor | None = None) -> Tensor:
        """The loss of some rows of a plan, a scalar to differentiate; the losses of all rows sum to the mini-batch's.

        `logp` [n, t] and `entropy` [n, t] are the current policy's, with gradient, for those rows and the first t <= T
        positions; whatever is beyond the mask is ignored.
        """
        batch, policy, penalty, bounds = _rows_of(plan, rows, logp.shape[1])
        logp = torch.where(batch.mask, logp, 0.0)
        advantage = batch.require("advantage", "loss")
        ratio = self.the(Ratio).ratio(batch, logp)
        total = (policy * self.the(Surrogate).loss(ratio, logp, advantage, bounds)).sum()
        if self.all(Penalty):
            entropy = None if entropy is None else torch.where(batch.mask, entropy, 0.0)
            total = total + sum((penalty * part.penalty(batch, logp, entropy)).sum() for part in self.all(Penalty))
        return total

    @torch.no_grad()
    def touched(self, plan: Plan, rows: Tensor | slice, logp: Tensor) -> dict[str, Tensor]:
        """Part name -> [n, t] bool: response tokens of some rows that each part of stages 1, 2, 4, 6 and 7 acted on.

        `clip` acts where the ratio's gradient is cut off; a modifier where it changes that.
        """
        batch, _, _, bounds = _rows_of(plan, rows, logp.shape[1])
        advantage = batch.require("advantage", "touched")
        ratio = self.the(Ratio).ratio(batch, torch.where(batch.mask, logp, 0.0))
        surrogate = self.the(Surrogate)
        touched = {name: tokens[rows][:, : logp.shape[1]] for name, tokens in plan.touched.items()}
        touched[surrogate.name] = batch.mask & surrogate.clips(ratio, advantage, bounds)
        unmodified = surrogate.bounds(batch)
        for modifier in self.all(Modifier):
            touched[modifier.name] = batch.mask & modifier.acts(ratio, advantage, unmodified)
        return touched

    # ---- for tests, teaching and outside oracles -----------------------------------------------------------------

    def token_gradients(self, batch: TokenBatch) -> list[Tensor]:
        """For each pass, [N, T]: minus the derivative of the loss with respect to `logp`.

        The whole batch is one mini-batch, evaluated at `batch.logp`, or at `logp_old` (and `entropy_old`) if that is
        None. Taken by autograd through the real `prepare`, `plan` and `loss`.
        """
        if batch.logp is None:
            batch = batch.with_fields(logp=batch.require("logp_old", "token_gradients"), entropy=batch.entropy_old)
        return [self.push(self.plan(update)) for update in self.passes(self.prepare(batch))]

    @torch.enable_grad()
    def push(self, plan: Plan) -> Tensor:
        """[N, T]: minus the derivative of a mini-batch's loss with respect to `logp`, at `plan.batch.logp`."""
        logp = plan.batch.require("logp", "push").detach().clone().requires_grad_()
        (gradient,) = torch.autograd.grad(self.loss(plan, slice(None), logp, plan.batch.entropy), logp)
        return -gradient

    @property
    def equation(self) -> str:
        """The loss with the actual numbers in it; r, A and the names of what is read are as the parts' formulas say."""
        nothing = torch.zeros(0, 0)
        fields: dict[str, Any] = dict.fromkeys(self.needs & TOKEN_FIELDS, nothing)
        empty = TokenBatch(mask=nothing.bool(), advantage=nothing, **fields)
        surrogate = self.the(Surrogate).equation(self._bounds(empty))
        silenced = "I " if self.all(Mask) else ""
        terms = [f"{self.the(Aggregate).formula()} of -{silenced}{surrogate}"]
        terms += [part.formula() for part in self.all(Penalty)]
        where = " and ".join(part.formula() for part in self.all(Mask))
        return " ".join(terms) + (f", I = {where}" if where else "")

    def describe(self) -> dict[str, Any]:
        """What the objective is, as plain data: canonical expression, equation, parts with formula and paper, needs."""
        return {
            "expression": self.expression,
            "equation": self.equation,
            "parts": [
                {"stage": part.stage.name.lower(), "term": part.term(), "formula": part.formula(), "paper": part.paper}
                for part in self.parts
            ],
            "needs": sorted(self.needs),
            "entropy_gradient": self.needs_entropy_gradient,
            "passes": self.pass_count,
        }

    def _require(self, batch: TokenBatch, *names: str) -> None:
        for part in self.parts:
            for name in sorted(part.needs.intersection(names)):
                batch.require(name, part.name)


def _only(tokens: Tensor, mask: Tensor | None) -> Tensor:
    return tokens if mask is None else tokens & mask


def _blank_outside(batch: TokenBatch) -> TokenBatch:
    """Zeroes every token field outside the mask, so that no padding value, not even NaN, can reach a result."""
    values = {
        name: value for name, value in batch.tensors().items() if name in TOKEN_FIELDS and value.is_floating_point()
    }
    if batch.advantage is not None:
        values["advantage"] = batch.advantage
    return batch.with_fields(**{name: torch.where(batch.mask, value, 0.0) for name, value in values.items()})


def _weighted(batch: TokenBatch, weights: Sequence[Weight]) -> TokenBatch:
    advantage = batch.require("advantage", "weights")
    touched = dict(batch.touched)
    for part in sorted(weights, key=lambda part: not part.additive):
        weight = part.weight(batch)
        touched[part.name] = batch.mask & (weight != (0.0 if part.additive else 1.0))
        advantage = advantage + weight if part.additive else advantage * weight
    return batch.with_fields(advantage=torch.where(batch.mask, advantage, 0.0), touched=touched)


def _rows_of(plan: Plan, rows: Tensor | slice, width: int) -> tuple[TokenBatch, Tensor, Tensor, Bounds]:
    batch = plan.batch.rows(rows)
    if width < batch.mask.shape[1]:
        if batch.mask[:, width:].any():
            raise ObjectiveError(f"the log-probs have {width} positions, but the rows' responses are longer")
        batch = batch.first_tokens(width)
    policy, penalty = plan.policy_coefficient[rows][:, :width], plan.penalty_coefficient[rows][:, :width]
    return batch, policy, penalty, plan.bounds.rows(rows, width)
