"""An objective: parts in stage order, planned over whole mini-batches, summed over micro-batches."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, TypeVar

import torch
from torch import Tensor

from objectives.batch import TokenBatch
from objectives.equation import written_equation
from objectives.errors import ObjectiveError
from objectives.expression import canonical, compose, in_order, read_terms, remove
from objectives.kinds import (
    Advantage,
    Aggregate,
    Bounds,
    Mask,
    Modifier,
    Penalty,
    Ratio,
    Reward,
    Schedule,
    Select,
    Surrogate,
    Weight,
)
from objectives.part import Part
from objectives.plan import Plan

Kind = TypeVar("Kind", bound=Part)


def parse(expression: str) -> "Objective":
    """The objective that an expression names, e.g. `stapo(tau_p=0.005)+clip_higher`.

    Raises ObjectiveError, and nothing else, for whatever cannot be read or composed.
    """
    if not isinstance(expression, str):
        raise ObjectiveError(f"an objective is written as text, not as a {type(expression).__name__}")
    return Objective(compose(read_terms(expression)))


@dataclass(frozen=True, eq=False)
class Objective:
    """A composition of parts. Immutable; `key`, equality and hash depend on the parts alone."""

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", in_order(self.parts))
        named = {part.name: part for part in self.parts}
        for part in self.parts:
            if part.asked:
                values = ",".join(f"{name}=NUMBER" for name in part.asked)
                raise ObjectiveError(
                    f"{part.name} needs {' and '.join(part.asked)}, for which no value is published: "
                    f"give it, as in {part.written}({values})"
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

    @torch.no_grad()
    def select(self, batch: TokenBatch) -> TokenBatch:
        """Stages 1 and 2: shaped `reward`, and `selected` rows; `mask` and the rows themselves stay.

        Late parts of stage 1 shape rewards in `prepare`. A batch with an `advantage` keeps its reward.
        """
        if batch.selected is not None:
            return batch
        early = [part for part in self.all(Reward) if not part.late and batch.advantage is None]
        selectors = self.all(Select)
        _require(batch, [*early, *selectors])
        batch = _shaped(batch, early)
        selected, touched = torch.ones_like(batch.mask[:, 0]), dict(batch.touched)
        for selector in selectors:
            chosen = selector.selects(batch)
            touched[selector.name] = batch.mask & ~batch.like_tokens(chosen)
            selected = selected & chosen
        return batch.with_fields(selected=selected, touched=touched)

    @torch.no_grad()
    def prepare(self, batch: TokenBatch, state: Mapping[str, Mapping[str, float]] | None = None) -> TokenBatch:
        """Stages 1 to 4 over the whole rollout batch: `advantage` [N, T], and `mask` less the rows dropped.

        An `advantage` [N] given by the caller stands in for stages 1 and 3. `state` is `batch.state` of the last step.
        """
        if batch.advantage is not None and batch.advantage.dim() == 2:
            raise ObjectiveError("the batch is prepared already: its advantage is per token")
        batch = self.select(batch)
        advantage = batch.like_tokens(self.advantages(batch))
        kept = batch.mask & batch.require("selected", "the objective")[:, None]
        batch = batch.with_fields(mask=kept, advantage=advantage).blank_outside()
        weights = self.all(Weight)
        _require(batch, [part for part in weights if not part.planned])
        states = {part.name: part.control(batch, (state or {}).get(part.name, {})) for part in weights}
        batch = batch.with_fields(state={name: dict(values) for name, values in states.items() if values})
        return _weighted(batch, [part for part in weights if not part.planned])

    @torch.no_grad()
    def advantages(self, batch: TokenBatch) -> Tensor:
        """Stage 3 of a rollout batch: [N], or [N, T] where a part tells tokens apart; weights come later.

        Groups that stage 2 dropped whole are no part of the batch for it.
        """
        if batch.advantage is not None:
            return batch.advantage
        batch, part = self.select(batch), self.the(Advantage)
        batch = _shaped(batch, [shaper for shaper in self.all(Reward) if shaper.late])
        group, selected = batch.require("group", part.name), batch.require("selected", part.name)
        size = torch.unique(group, return_counts=True)[1].min() if len(group) else part.minimum_group
        if size < part.minimum_group:
            raise ObjectiveError(f"{part.name} needs at least {part.minimum_group} responses per prompt, not {size}")
        _require(batch, [part])
        present = torch.isin(group, group[selected])
        return part.of(batch.with_fields(mask=batch.mask & present[:, None]).blank_outside())

    def passes(self, batch: TokenBatch) -> Sequence[TokenBatch]:
        """The prepared batch of each update pass."""
        _require(batch, [self.the(Schedule)])
        return self.the(Schedule).passes(batch)

    # ---- once per optimiser mini-batch ---------------------------------------------------------------------------

    @torch.no_grad()
    def plan(self, minibatch: TokenBatch) -> Plan:
        """Stages 4 (current statistics), 6 (bounds), 7 and 8 over a whole prepared mini-batch, all ranks together.

        Rows: N of the mini-batch. Where a part reads current statistics, `logp` and `entropy` must be there.
        """
        if minibatch.require("advantage", "plan").dim() != 2:
            raise ObjectiveError("the batch is not prepared: its advantage is per response, not per token")
        _require(minibatch, [part for part in self.parts if not isinstance(part, Reward | Select | Advantage)])
        batch = _weighted(minibatch.blank_outside(), [part for part in self.all(Weight) if part.planned])
        advantage, surrogate, aggregate = batch.require("advantage", "plan"), self.the(Surrogate), self.the(Aggregate)
        touched = dict(batch.touched)
        kept, counted = batch.mask, batch.mask
        for mask in self.all(Mask):
            keeps = mask.keeps(batch)
            touched[mask.name] = batch.mask & ~keeps
            kept = kept & keeps
            counted = counted & keeps if mask.shrinks_denominator else counted
        policy = aggregate.coefficients(batch, counted).to(advantage.dtype)
        penalised = _only(batch.mask, batch.penalty_mask)
        penalties = {}
        for penalty in self.all(Penalty):
            coefficients = torch.where(batch.mask, penalty.coefficients(batch, aggregate).to(advantage.dtype), 0.0)
            penalties[penalty.name] = torch.where(penalised, coefficients, 0.0)
            if penalty.chooses:
                touched[penalty.name] = coefficients != 0
        return Plan(
            batch=batch,
            policy_coefficient=torch.where(_only(kept, batch.policy_mask), policy, 0.0),
            penalty_coefficients=penalties,
            bounds=self._bounds(batch),
            unmodified={part.name: self._bounds(batch, without=part) for part in self.all(Modifier)},
            extra=surrogate.extra(batch),
            follows_advantage=surrogate.follows_advantage,
            touched=touched,
        )

    def _bounds(self, batch: TokenBatch, without: Modifier | None = None) -> Bounds:
        bounds = self.the(Surrogate).bounds(batch)
        for modifier in self.all(Modifier):
            bounds = bounds if modifier is without else modifier.modify(bounds, batch)
        return bounds

    # ---- once per micro-batch ------------------------------------------------------------------------------------

    def loss(self, plan: Plan, rows: Tensor | slice, logp: Tensor, entropy: Tensor | None = None) -> Tensor:
        """The loss of some rows of a plan, a scalar to differentiate; the losses of all rows sum to the mini-batch's.

        `logp` [n, t] and `entropy` [n, t] are the current policy's, with gradient, for those rows and the first t <= T
        positions; whatever is beyond the mask is ignored.
        """
        part = plan.rows(rows, logp.shape[1])
        logp = torch.where(part.batch.mask, logp, 0.0)
        total = (part.policy_coefficient * self._surrogate(part, logp, part.bounds)).sum()
        if self.all(Penalty):
            entropy = None if entropy is None else torch.where(part.batch.mask, entropy, 0.0)
            total = total + sum(
                (part.penalty_coefficients[penalty.name] * penalty.penalty(part.batch, logp, entropy)).sum()
                for penalty in self.all(Penalty)
            )
        return total

    def _surrogate(self, part: Plan, logp: Tensor, bounds: Bounds) -> Tensor:
        """[n, t] the surrogate's loss of each token."""
        ratio, advantage = self.the(Ratio).ratio(part.batch, logp), part.batch.require("advantage", "loss")
        return self.the(Surrogate).loss(ratio, logp, advantage, bounds, part.extra)

    @torch.no_grad()
    def touched(self, plan: Plan, rows: Tensor | slice, logp: Tensor) -> dict[str, Tensor]:
        """Part name -> [n, t] bool: response tokens of some rows that each part acted on, at log-probs `logp` [n, t].

        A surrogate acts where it cuts off the ratio's gradient, a modifier where it changes the gradient.
        """
        part = plan.rows(rows, logp.shape[1])
        mask, surrogate = part.batch.mask, self.the(Surrogate)
        logp = torch.where(mask, logp, 0.0)
        ratio = self.the(Ratio).ratio(part.batch, logp)
        clipped = surrogate.clips(ratio, part.batch.require("advantage", "touched"), part.bounds)
        touched = {**part.touched, surrogate.name: mask & clipped}
        if part.unmodified:
            gradient = self._surrogate_gradient(part, logp, part.bounds)
            for name, bounds in part.unmodified.items():
                touched[name] = mask & (gradient != self._surrogate_gradient(part, logp, bounds))
        return touched

    @torch.enable_grad()
    def _surrogate_gradient(self, part: Plan, logp: Tensor, bounds: Bounds) -> Tensor:
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
        return [self.push(self.plan(update)) for update in self.passes(self.prepare(batch))]

    @torch.enable_grad()
    def push(self, plan: Plan) -> Tensor:
        """[N, T]: minus the derivative of a mini-batch's loss with respect to `logp`, at `plan.batch.logp`."""
        logp = plan.batch.require("logp", "push").detach().clone().requires_grad_()
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


def _require(batch: TokenBatch, parts: Iterable[Part]) -> None:
    """Raises ObjectiveError for the first field that a part reads and the batch lacks."""
    for part in parts:
        batch.require_all(part.needs if batch.on_policy else part.needs | part.reads_once_moved, part.name)


def _only(tokens: Tensor, mask: Tensor | None) -> Tensor:
    return tokens if mask is None else tokens & mask


def _shaped(batch: TokenBatch, shapers: Sequence[Reward]) -> TokenBatch:
    """The batch whose reward [N], or [N, T], these parts have shaped."""
    _require(batch, shapers)
    if batch.reward is None:
        return batch
    present, touched = batch.blank_outside(), dict(batch.touched)
    reward = batch.reward.to(torch.promote_types(batch.reward.dtype, torch.float32))
    for part in shapers:
        shaping = part.shaping(present)
        touched[part.name] = batch.mask & batch.like_tokens(shaping != 0)
        if max(reward.dim(), shaping.dim()) == 2:
            reward, shaping = batch.like_tokens(reward), batch.like_tokens(shaping)
        reward = reward + shaping
    return batch.with_fields(reward=reward, touched=touched)


def _weighted(batch: TokenBatch, weights: Sequence[Weight]) -> TokenBatch:
    advantage = batch.require("advantage", "weights")
    touched = dict(batch.touched)
    for part in sorted(weights, key=lambda part: not part.additive):
        weight = part.weight(batch)
        touched[part.name] = batch.mask & (weight != (0.0 if part.additive else 1.0))
        advantage = advantage + weight if part.additive else advantage * weight
    return batch.with_fields(advantage=torch.where(batch.mask, advantage, 0.0), touched=touched)
