"""What one expression does in one regime: bias, noise, and what a small step changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import comb

import numpy as np
import torch
from torch import Tensor

from objectives import Loop, Objective, ObjectiveError, Surrogate, TokenBatch, derivatives
from rlzoo.lab.map.estimates import Intervals, normalised_samples
from rlzoo.lab.map.regimes import (
    QUANTITIES,
    EntropyChange,
    MapRollouts,
    RegimeSetting,
    entropy_change,
    quantities,
    token_stats,
)
from rlzoo.statistics.intervals import Estimate

# ---- the gradient of an objective on the table, through the loop that training takes ---------------------------------


@dataclass(frozen=True, eq=False)
class MapUpdate:
    """What an objective asks for with one batch of rollouts."""

    gradient: Tensor
    """[P, T, V + 1, V], the direction of ascent, summed over passes."""
    acted: frozenset[str]
    """Parts that acted on some token."""
    watched: frozenset[str]
    """Parts that can tell."""


def update_of(objective: Objective, rollouts: MapRollouts, setting: RegimeSetting, step: float) -> MapUpdate:
    """The update of a batch; a further pass begins where a step of KL `step` has led that follows the passes before."""
    batch, table = rollouts.batch, setting.current
    gradient = torch.zeros_like(table)
    touched: dict[str, bool] = {}
    taken = Loop(objective, moved=not batch.on_policy).begin(batch)
    for number in range(len(taken.rows)):
        moved = table + gradient * step_size(setting, gradient, step) if number else table
        statistics = partial(token_stats, moved, rollouts.place, rollouts.symbol)
        plan, (logp, entropy) = taken.plan(number, statistics), statistics()
        _, *by_token = derivatives(objective, plan, slice(None), logp, entropy)
        on_logp, on_entropy = (torch.where(batch.mask, values, 0.0) for values in by_token)
        gradient = gradient - on_table(moved, rollouts, on_logp, on_entropy)
        for name, tokens in objective.touched(plan, slice(None), logp).items():
            touched[name] = touched.get(name, False) or bool(tokens.any())
    return MapUpdate(gradient, frozenset(name for name, acts in touched.items() if acts), frozenset(touched))


def on_table(table: Tensor, rollouts: MapRollouts, on_logp: Tensor, on_entropy: Tensor) -> Tensor:
    """Derivatives with respect to tokens' log-probs and entropies, as one with respect to the logits of the table."""
    log_probs = table.log_softmax(-1).flatten(0, -2)
    probability = log_probs.exp()
    entropy = -(probability * log_probs).sum(-1, keepdim=True)
    chosen = torch.zeros_like(log_probs).flatten()
    chosen = chosen.index_add(0, (rollouts.place * table.shape[-1] + rollouts.symbol).flatten(), on_logp.flatten())
    chosen = chosen.view_as(log_probs)
    through_entropy = torch.zeros_like(entropy[:, 0]).index_add(0, rollouts.place.flatten(), on_entropy.flatten())
    result = chosen - probability * chosen.sum(-1, keepdim=True)
    result = result - through_entropy[:, None] * probability * (log_probs + entropy)
    return result.view_as(table)


def step_size(setting: RegimeSetting, direction: Tensor, divergence: float) -> Tensor:
    """The factor of a direction with which KL(old, new) of a response is `divergence`, to second order."""
    length: Tensor = setting.language.natural(setting.current, direction).norm()
    return divergence**0.5 / length.clamp(min=1e-150)


# ---- what its advantages ascend: the reward itself, or a function of it ----------------------------------------------


def target_gradient(objective: Objective, setting: RegimeSetting) -> Tensor | None:
    """The gradient [P, T, V + 1, V] of what the advantages ascend in expectation; None if they have no such target.

    With G responses, each right with probability p, an advantage that depends on its group's rewards alone ascends a
    function F(p), and F' is a sum over the G + 1 possible groups. Neither GRPO's F nor that of a mean over pass@k is p.
    Advantages that depend on other groups, log-probs or partial rewards have no F. Nor have surrogates that do not
    follow the advantage.
    """
    regime = setting.regime
    if regime.partial or not objective.the(Surrogate).follows_advantage:
        return None
    right, wrong = _advantages(objective, regime.responses)
    if right is None or wrong is None:
        return None
    table = setting.current.clone().requires_grad_()
    passed = (setting.language.log_probs(table).exp() * setting.right).sum(1)
    weight = _slope(right, wrong, passed.detach())
    return torch.autograd.grad((weight * passed).mean(), table)[0]


def _slope(right: Tensor, wrong: Tensor, passed: Tensor) -> Tensor:
    """F' at each p: by how much a right response expects more than a wrong one, over the others of its group."""
    others = len(right) - 2
    chance = torch.stack([comb(others, k) * passed**k * (1 - passed) ** (others - k) for k in range(others + 1)])
    return (chance * (right[1:] - wrong[:-1])[:, None]).sum(0)


@lru_cache(maxsize=1024)
def _advantages(objective: Objective, size: int) -> tuple[Tensor | None, Tensor | None]:
    """[G + 1] advantages of right and of wrong responses by how many are right (0 where there are none)."""
    groups = torch.stack([(torch.arange(size) < k).double() for k in range(size + 1)])
    try:
        together = _of(objective, groups)
        apart = torch.cat([_of(objective, groups[[k]]) for k in range(size + 1)])
    except ObjectiveError:  # it reads what groups of rewards do not have
        return None, None
    if not torch.allclose(together, apart, atol=1e-9):
        return None, None
    first, last = together[:, 0].clone(), together[:, -1].clone()
    first[0], last[-1] = 0.0, 0.0
    return first, last


def _of(objective: Objective, rewards: Tensor) -> Tensor:
    """[groups, G] advantages of groups of responses of one token."""
    count, size = rewards.shape
    ones = torch.ones(count * size, 1, dtype=torch.float64)
    batch = TokenBatch(
        mask=ones.bool(),
        group=torch.arange(count).repeat_interleave(size),
        reward=rewards.flatten(),
        rewards=rewards.flatten()[:, None],
        correct=rewards.flatten(),
        truncated=torch.zeros(count * size, dtype=torch.bool),
        max_length=100,
        logp_old=-ones,
        logp_ref=-ones,
        logp_sampler=-ones,
        logp_prompt=-ones[:, 0],
        entropy_old=ones,
        sum_pi_squared_old=ones / 2,
        on_policy=True,
    )
    advantage = objective.advantages(batch)
    return (advantage[:, 0] if advantage.dim() == 2 else advantage).view(count, size)


# ---- a row of the map ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """What a step does to a quantity."""

    exact: float
    """After a step along the mean gradient of all batches, which is near the expected one."""
    expected: Estimate
    """To first order, after a step along the expected gradient."""
    beside: Estimate
    """`expected`, less what an equally long step along the policy gradient does."""

    @property
    def sign(self) -> int:
        """1 if the quantity grows for sure, -1 if it shrinks, 0 if neither is sure."""
        return sign(self.expected)

    @property
    def sign_beside(self) -> int:
        """1 if it grows by more than along the policy gradient, or shrinks by less, for sure; -1, 0 likewise."""
        return sign(self.beside)


def sign(estimate: Estimate) -> int:
    """Of what its interval leaves no doubt about; otherwise 0."""
    return (estimate.low > 0) - (estimate.high < 0)


@dataclass(frozen=True)
class Behaviour:
    """A row of the map. Steps are as long as changes the policy by a KL divergence that all rows share."""

    expression: str
    """As it was asked for."""
    key: str
    """What it is: `Objective.key`."""
    cosine: Estimate
    """Of the expected gradient and the gradient of the true expected reward."""
    target_cosine: Estimate | None
    """Of it and the gradient of what its own advantages ascend; None where they have no target."""
    length: Estimate
    """Of the expected gradient, along the policy gradient and in units of that."""
    signal_to_noise: float
    """Length of the expected gradient over the deviation of a batch's."""
    changes: Mapping[str, Change]
    """By quantity."""
    entropy: EntropyChange
    idle: tuple[str, ...]
    """Parts that did not act on any token of any batch."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """What batches say of an expression, before the intervals of all rows are known."""

    expression: str
    objective: Objective
    gradients: np.ndarray
    """[B, D]."""
    samples: np.ndarray
    """[B, 3 + 2 Q]: their means are both cosines (0 without a target), the length, `expected` and `beside`."""
    has_target: bool
    exact: Sequence[float]
    entropy: EntropyChange
    idle: tuple[str, ...]

    @property
    def signal_to_noise(self) -> float:
        """Of a batch."""
        count = len(self.gradients)
        noise = self.gradients.var(0, ddof=1).sum()
        signal = np.square(self.gradients.mean(0)).sum() - noise / count
        return float(np.sqrt(max(signal, 0.0) / max(noise, 1e-300)))

    def behaviour(self, intervals: Intervals) -> Behaviour:
        """The row, with the intervals of `samples`."""
        count = len(QUANTITIES)
        changes = {
            name: Change(self.exact[place], intervals[3 + place], intervals[3 + count + place])
            for place, name in enumerate(QUANTITIES)
        }
        return Behaviour(
            expression=self.expression,
            key=self.objective.key,
            cosine=intervals[0],
            target_cosine=intervals[1] if self.has_target else None,
            length=intervals[2],
            signal_to_noise=self.signal_to_noise,
            changes=changes,
            entropy=self.entropy,
            idle=self.idle,
        )


def measure(
    expression: str,
    objective: Objective,
    setting: RegimeSetting,
    slopes: Tensor,
    rollouts: Sequence[MapRollouts],
    step: float,
) -> Measurement | None:
    """Measures an objective on batches of rollouts; None if it has no gradient on any of them.

    `slopes` [Q, P, T, V + 1, V] are those of the quantities.
    """
    updates = [update_of(objective, drawn, setting, step) for drawn in rollouts]
    gradients = torch.stack([update.gradient for update in updates])
    if not gradients.any():
        return None
    target = target_gradient(objective, setting)
    mean = gradients.mean(0)
    move = mean * step_size(setting, mean, step)
    exact = quantities(setting, setting.current + move) - quantities(setting, setting.current)
    return Measurement(
        expression=expression,
        objective=objective,
        gradients=gradients.flatten(1).numpy(),
        samples=_samples(setting, gradients, slopes, target, step),
        has_target=target is not None,
        exact=exact.tolist(),
        entropy=entropy_change(setting, move),
        idle=_idle(objective, updates),
    )


def expected_changes(setting: RegimeSetting, slopes: Tensor, direction: Tensor, step: float) -> Tensor:
    """[Q]: what a step along a direction changes, to first order."""
    return (slopes * direction * step_size(setting, direction, step)).flatten(1).sum(1)


def _samples(
    setting: RegimeSetting, gradients: Tensor, slopes: Tensor, target: Tensor | None, step: float
) -> np.ndarray:
    flat, truth = gradients.flatten(1), slopes[0].flatten()
    to_target = torch.zeros_like(truth) if target is None else target.flatten() / target.norm()
    directions = torch.stack([truth / truth.norm(), to_target], 1)
    cosines = normalised_samples((flat @ flat.T).numpy(), (flat @ directions).numpy())
    natural = setting.language.natural(setting.current, gradients)
    along = (flat @ slopes.flatten(1).T).numpy()
    expected = step**0.5 * normalised_samples((natural @ natural.T).numpy(), along)
    of_truth = expected_changes(setting, slopes, slopes[0], step).numpy()
    length = (flat @ truth / truth.square().sum()).numpy()[:, None]
    return np.concatenate([cosines, length, expected, expected - of_truth], 1)


def _idle(objective: Objective, updates: Sequence[MapUpdate]) -> tuple[str, ...]:
    """Parts that could act and never did. Surrogates are left out, as many cannot cut anything off."""
    acted = frozenset[str]().union(*(update.acted for update in updates))
    watched = frozenset[str]().union(*(update.watched for update in updates))
    parts = [part.name for part in objective.parts if not isinstance(part, Surrogate)]
    return tuple(name for name in parts if name in watched - acted)
