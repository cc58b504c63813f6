"""What an objective does to each token of scored rollouts, and how that sums up."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from objectives import Action, Loop, Mask, Objective, Plan, Ratio, Select, Step, Surrogate, TokenBatch


@dataclass(frozen=True)
class View:
    """What an objective does with N responses of up to T tokens, before its first update.

    [N, T], zero beyond the responses, unless said otherwise. All passes, and all mini-batches of a step, see the policy
    that the first update meets.
    """

    objective: Objective
    tokens: Tensor
    """Bool: the tokens of the responses."""
    reward: Tensor
    """[N]: as shaped."""
    response_advantage: Tensor
    """[N]: of stage 3; the mean over the tokens of a response where they differ."""
    unweighted: Tensor
    """The advantage before the weights of stage 4."""
    advantage: Tensor
    """After them."""
    weights: Mapping[str, Tensor]
    """Part -> its factor on each token, or what it adds there, in the order in which they are carried out."""
    summands: frozenset[str]
    """Those of them that add."""
    ratio: Tensor
    left_out: Mapping[str, Tensor]
    """Part of stage 2 -> [N] bool: responses that are not trained on."""
    masked: Mapping[str, Tensor]
    """Part of stage 7 -> bool: tokens that it leaves out of the loss."""
    without: Mapping[str, Tensor]
    """Part of stage 7 -> the gradient of the objective without this part."""
    touched: Mapping[str, Tensor]
    """Part -> bool: tokens that it acted on."""
    update_pass: Tensor
    """int: the pass that updates the token, from 1."""
    gradient: Tensor
    """Minus the derivative of the loss with respect to the token's log-prob: the update moves it in this direction."""
    penalty: Tensor
    """The share of the gradient that comes from the penalties."""
    logit_gradient: Tensor
    """The same for the token's own (tempered) logit: the gradient times 1 - p, as d log p / d logit = 1 - p."""

    @cached_property
    def weighed(self) -> Tensor:
        """The advantage after the weights, as their entries make it one after another."""
        advantage = self.unweighted
        for part, values in self.weights.items():
            advantage = advantage + values if part in self.summands else advantage * values
        return advantage

    @cached_property
    def any_masked(self) -> Tensor:
        """Bool: tokens that some part masks."""
        return torch.stack([torch.zeros_like(self.gradient, dtype=torch.bool), *self.masked.values()]).any(0)

    @cached_property
    def left_out_rows(self) -> Tensor:
        """[N] bool: responses that some part leaves out."""
        return torch.stack([torch.zeros_like(self.reward, dtype=torch.bool), *self.left_out.values()]).any(0)

    @cached_property
    def clipped(self) -> Tensor:
        """Bool: tokens whose gradient the surrogate's bounds change."""
        return self.touched[self.objective.the(Surrogate).name]

    @cached_property
    def unit(self) -> float:
        """The mean size of the gradient, over the tokens where it is not 0."""
        sizes = self.gradient[self.gradient != 0].abs()
        return float(sizes.mean()) if len(sizes) else 1.0


def look(
    objective: Objective,
    batch: TokenBatch,
    minibatches: int = 1,
    state: Mapping[str, Mapping[str, float]] | None = None,
    met: tuple[Tensor, Tensor] | None = None,
) -> View:
    """What an objective does with scored rollouts, as its own trace says it.

    `minibatches` is how many a pass has; `state` is that of its controllers. `batch` has `logp_old` and `entropy_old`,
    and the other fields that the objective reads; without `logp` the policy is the one that sampled. `met` are the
    log-probs and entropies [N, T] of the policy that is updated, where those by which is planned are others.
    """
    if batch.logp is None:
        batch = batch.with_fields(logp=batch.logp_old, entropy=batch.entropy_old)
    step = Loop(objective, minibatches, moved=True).begin(batch, state)
    prepared, (entry,) = step.prepared, step.prepared.trace.of(Action.ADVANTAGE)
    tokens = batch.mask.sum(1).clamp(min=1)
    response_advantage = entry.value if entry.value.dim() == 1 else (entry.value * batch.mask).sum(1) / tokens
    zeros = torch.zeros_like(prepared.advantage)
    seen = {name: zeros.clone() for name in ("advantage", "ratio", "gradient", "penalty")}
    update_pass = torch.zeros_like(batch.mask, dtype=torch.long)
    weights: dict[str, Tensor] = {}
    summands: set[str] = set()
    touched: dict[str, Tensor] = {}
    for number, rows, plan in _plans(step, met):
        logp = plan.batch.require("logp", "look")
        seen["advantage"][rows] = plan.batch.advantage
        seen["ratio"][rows] = torch.where(plan.batch.mask, objective.the(Ratio).ratio(plan.batch, logp), 0.0).detach()
        seen["gradient"][rows] += objective.token_gradient(plan)
        seen["penalty"][rows] += objective.token_gradient(
            replace(plan, policy_coefficient=torch.zeros_like(plan.policy_coefficient))
        )
        updated = plan.batch.mask
        for entered in plan.batch.trace.of(Action.PASS):
            updated = updated & entered.value if entered.name == "policy" else updated
        update_pass[rows] = torch.where(updated, number, update_pass[rows])
        for name, acted in objective.touched(plan, slice(None), logp).items():
            touched.setdefault(name, torch.zeros_like(batch.mask))[rows] |= acted
        for done in plan.batch.trace:
            if done.action in (Action.ADD, Action.WEIGH):
                weights.setdefault(done.part, zeros.clone())[rows] = torch.where(plan.batch.mask, done.value, 0.0)
                summands |= {done.part} if done.action is Action.ADD else set()
    masks = objective.all(Mask)
    return View(
        objective=objective,
        tokens=batch.mask,
        reward=prepared.require("reward", "look"),
        response_advantage=response_advantage,
        unweighted=torch.where(batch.mask, batch.like_tokens(entry.value), 0.0),
        weights=weights,
        summands=frozenset(summands),
        left_out={part.name: touched[part.name].any(1) for part in objective.all(Select)},
        masked={part.name: touched[part.name] for part in masks},
        without={part.name: _gradient(objective.without(part.name), batch, minibatches, state, met) for part in masks},
        touched=touched,
        update_pass=update_pass,
        logit_gradient=seen["gradient"] * -torch.expm1(batch.require("logp", "look") if met is None else met[0]),
        **seen,
    )


def _plans(step: Step, met: tuple[Tensor, Tensor] | None) -> Iterator[tuple[int, Tensor, Plan]]:
    """The pass from 1, the rows and the plan of every update, made with the statistics that the batch has.

    It then has the statistics of the policy that is updated, those of the batch unless they are others.
    """
    for number, rows in enumerate(step.rows):
        plan = step.plan(number)
        if met is not None:
            logp, entropy = (values[rows] for values in met)
            plan = replace(plan, batch=plan.batch.with_fields(logp=logp, entropy=entropy).blank_outside())
        yield number // step.loop.minibatches + 1, rows, plan


def _gradient(
    objective: Objective,
    batch: TokenBatch,
    minibatches: int,
    state: Mapping[str, Mapping[str, float]] | None,
    met: tuple[Tensor, Tensor] | None,
) -> Tensor:
    step = Loop(objective, minibatches, moved=True).begin(batch, state)
    gradient = torch.zeros_like(step.prepared.advantage)
    for _, rows, plan in _plans(step, met):
        gradient[rows] += objective.token_gradient(plan)
    return gradient


# ---- what is seen in a view ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Quadrant:
    """Tokens that are alike in probability, entropy and the sign of their advantage; shares are of all tokens."""

    probable: bool
    uncertain: bool
    sign: int
    """Of the response's advantage: 1, 0 or -1."""
    tokens: int
    share: float
    gradient_share: float
    """Of the sum of the sizes of all gradients."""
    logit_share: float
    """Of the sum of the sizes of all gradients on logits."""


@dataclass(frozen=True)
class Agreement:
    """Two objectives on the same rollouts, in numbers of tokens."""

    tokens: int
    cosine: float
    """Of the two vectors of gradients; nan if one is 0."""
    opposite: int
    """Tokens with gradients of opposite signs."""
    masked: tuple[int, int]
    """By the first alone, by the second alone."""
    only_updated: tuple[int, int]
    """With a gradient from the first and none from the second, and the reverse."""


def quadrants(batch: TokenBatch, view: View, probable: float, uncertain: float) -> list[Quadrant]:
    """Counts of each kind of token; a token is probable from `probable` up, uncertain from `uncertain` nats up."""
    likely = batch.require("logp_old", "quadrants").exp() >= probable
    open_place = batch.require("entropy_old", "quadrants") >= uncertain
    sign = batch.like_tokens(view.response_advantage.sign())
    tokens, sizes = int(batch.mask.sum()), [each.abs().double() for each in (view.gradient, view.logit_gradient)]
    kinds = []
    for s in (1, -1, 0):
        for p, h in ((True, False), (True, True), (False, True), (False, False)):
            here = batch.mask & (likely == p) & (open_place == h) & (sign == s)
            count = int(here.sum())
            gradient_share, logit_share = (float(size[here].sum()) / (float(size.sum()) or 1.0) for size in sizes)
            kinds.append(Quadrant(p, h, s, count, count / max(1, tokens), gradient_share, logit_share))
    return kinds


def compare_views(batch: TokenBatch, first: View, second: View) -> Agreement:
    """How far two objectives agree."""
    a, b = first.gradient[batch.mask].double(), second.gradient[batch.mask].double()
    masked = [view.any_masked[batch.mask] for view in (first, second)]
    norm = float(a.norm() * b.norm())
    return Agreement(
        tokens=len(a),
        cosine=float(a @ b) / norm if norm else float("nan"),
        opposite=int((a * b < 0).sum()),
        masked=(int((masked[0] & ~masked[1]).sum()), int((masked[1] & ~masked[0]).sum())),
        only_updated=(int(((a != 0) & (b == 0)).sum()), int(((b != 0) & (a == 0)).sum())),
    )
