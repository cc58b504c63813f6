"""What one expression does in one regime: bias, noise, what a small step changes, and whose tokens are moved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from objectives import Objective, Surrogate
from rlzoo.lab.map.estimates import Intervals, normalised_samples
from rlzoo.lab.map.gradients import MapUpdate, step_size, update_of
from rlzoo.lab.map.quantities import QUANTITIES, EntropyChange, entropy_change, quantities
from rlzoo.lab.map.regimes import RegimeSetting
from rlzoo.lab.map.rollouts import MapRollouts
from rlzoo.lab.map.targets import target_gradient
from rlzoo.statistics.intervals import Estimate


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
    mass: tuple[float, ...]
    """The share of the gradient that tokens of each quarter of probabilities have, improbable ones first."""
    up: float
    """The share that makes tokens more probable."""
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
    mass: tuple[float, ...]
    up: float
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
            mass=self.mass,
            up=self.up,
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
    mass, up = _mass([update.push for update in updates], rollouts)
    return Measurement(
        expression=expression,
        objective=objective,
        gradients=gradients.flatten(1).numpy(),
        samples=_samples(setting, gradients, slopes, target, step),
        has_target=target is not None,
        exact=exact.tolist(),
        entropy=entropy_change(setting, move),
        mass=mass,
        up=up,
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


def _mass(pushes: Sequence[Tensor], rollouts: Sequence[MapRollouts]) -> tuple[tuple[float, ...], float]:
    """Shares of the length of what tokens add to the logits of their places."""
    weighed = [(push * drawn.leverage)[drawn.batch.mask] for push, drawn in zip(pushes, rollouts, strict=True)]
    push, quarter = torch.cat(weighed), torch.cat([drawn.quarter[drawn.batch.mask] for drawn in rollouts])
    quarters = torch.zeros(4, dtype=torch.float64).index_add(0, quarter, push.abs())
    total = push.abs().sum().clamp(min=1e-300)
    return tuple((quarters / total).tolist()), float(push.clamp(min=0).sum() / total)


def _idle(objective: Objective, updates: Sequence[MapUpdate]) -> tuple[str, ...]:
    """Without surrogates, of which many cannot cut anything off."""
    acted = frozenset[str]().union(*(update.acted for update in updates))
    watched = frozenset[str]().union(*(update.watched for update in updates))
    parts = [part.name for part in objective.parts if not isinstance(part, Surrogate)]
    return tuple(name for name in parts if name in watched - acted)
