"""Random rollout batches that go to the edges: ragged, tied, empty, extreme, with holes, with garbage beyond the mask.

Every number lies on a grid that float32 holds exactly, so that float32 and float64 see the same ties and thresholds.
"""

from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from objectives import FIELDS, TokenBatch, Writer
from objectives.contract import with_made_up_fields

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

GRID = 1024.0
GARBAGE = (np.nan, np.inf, -np.inf, 1e30, 0.0)


@dataclass(frozen=True)
class Case:
    """A rollout batch as plain arrays: token fields [N, T], row fields [N]. `logp` None: the policy has not moved."""

    mask: Flags
    heard: Flags
    """What an environment wrote."""
    extent: NDArray[np.int64]
    """[N] tokens behind the prompt, from the policy or an environment."""
    group: NDArray[np.int64]
    reward: Array
    rewards: Array
    correct: Array
    truncated: Flags
    micro_batch: NDArray[np.int64]
    logp_old: Array
    entropy_old: Array
    sum_pi_squared_old: Array
    logp_ref: Array
    logp_teacher: Array
    max_length: int
    logp_sampler: Array
    logp_prompt: Array
    random_key: NDArray[np.int64]
    turn: NDArray[np.int64]
    turn_reward: Array
    turn_state: NDArray[np.int64]
    logp: Array | None = None
    entropy: Array | None = None

    @property
    def current(self) -> Array:
        """[N, T] log-probs at which the gradient is taken."""
        return self.logp_old if self.logp is None else self.logp

    @property
    def current_entropy(self) -> Array:
        """[N, T] entropies there."""
        return self.entropy_old if self.logp is None or self.entropy is None else self.entropy

    @property
    def writer(self) -> NDArray[np.int64]:
        """[N, T] who wrote each token."""
        is_there = np.arange(self.mask.shape[1]) < self.extent[:, None]
        others = np.where(is_there, Writer.POLICY, Writer.NONE)
        return np.where(self.heard, Writer.ENVIRONMENT, others).astype(np.int64)

    @property
    def length(self) -> NDArray[np.int64]:
        """[N] tokens that the policy wrote, in the mask or not."""
        return (self.writer == Writer.POLICY).sum(1)


@cache
def random_case(seed: int, extreme: bool = True, moved: bool | None = None) -> Case:
    """A batch of 2 to 4 groups of 2 to 6 responses of up to 4 to 12 tokens.

    `extreme`: ratios up to e^22, probabilities from 1 down to e^-75, uniform groups, empty responses, garbage beyond
    the mask; otherwise a mild batch, in which no token dwarfs the others. `moved`: whether the policy has moved since
    the rollouts (None: in nine of ten batches). In half of the batches the mask has holes: tokens that
    an environment wrote, and masked ones of the policy.
    """
    draw = np.random.default_rng(seed)
    width = int(draw.integers(4, 13))
    sizes = draw.integers(2, 7, size=draw.integers(2, 5))
    names = draw.choice(np.arange(-5, 1000), size=len(sizes), replace=False)
    group, reward, correct, length = [], [], [], []
    all_equal = extreme and draw.random() < 0.05
    for name, size in zip(names, sizes, strict=True):
        group += [name] * int(size)
        style = "equal" if all_equal else draw.choice(["binary", "binary", "levels", "equal", "tenths", "bonus"])
        right = (draw.random(size) < 0.5).astype(float)
        lengths = draw.integers(0 if extreme and draw.random() < 0.1 else 1, width + 1, size=size)
        if style in ("equal", "bonus") or not extreme:
            right[:] = right[0]
        if not extreme:
            right[: size // 2] = 1 - right[0]
        if style == "tenths" and extreme:
            right[:], lengths[:] = right[0], lengths[0]
            reward += [0.1] * int(size)
        elif style == "levels":
            right = draw.integers(0, 3, size=size) / 2
            reward += right.tolist()
        else:
            bonus = draw.integers(0, 3, size=size) / 2 if style == "bonus" and extreme else 0.0
            reward += (2 * right - 1 + bonus).tolist()
        correct += right.tolist()
        length += lengths.tolist()
    order = draw.permutation(len(group))
    lengths = np.array(length)[order]
    mask = np.arange(width) < lengths[:, None]
    shape = mask.shape
    logp_old, logp = _policies(draw, shape, extreme)
    high_entropy = draw.random() < 0.5
    if moved is False or (moved is None and draw.random() < 0.1):
        current = {"logp": None, "entropy": None}
    else:
        current = {"logp": logp, "entropy": _entropies(draw, shape, high_entropy)}
    case = Case(
        mask=mask,
        heard=np.zeros_like(mask),
        extent=lengths,
        group=np.array(group)[order],
        reward=np.array(reward)[order],
        rewards=np.stack([np.array(reward), np.array(length) % 3 / 2], 1)[order],
        correct=np.array(correct)[order],
        truncated=draw.random(shape[0]) < 0.2,
        micro_batch=draw.integers(3, 3 + draw.integers(1, 5), size=shape[0]),
        logp_old=logp_old,
        entropy_old=_entropies(draw, shape, high_entropy),
        sum_pi_squared_old=_sums_of_squares(np.random.default_rng([seed, 2]), logp_old),
        logp_ref=_grid(np.minimum(logp_old + _steps(draw, shape, extreme), 0.0)),
        logp_teacher=_grid(np.minimum(logp_old + _steps(np.random.default_rng([seed, 3]), shape, extreme), 0.0)),
        max_length=int(draw.choice([5, 10, 20])),
        logp_sampler=_grid(np.minimum(logp_old + _steps(draw, shape, extreme), 0.0)),
        random_key=_random_keys(np.random.default_rng([seed, 1]), shape),
        logp_prompt=-((np.array(group)[order] + 5) % 4 / 2 + 0.25),
        **_turns(np.random.default_rng([seed, 4]), shape),
        **current,
    )
    if draw.random() < 0.5:
        case = with_holes(case, draw)
    return beyond_the_mask(case, float(draw.choice(GARBAGE)), observed=False) if extreme else case


def _turns(draw: np.random.Generator, shape: tuple[int, int]) -> dict[str, Any]:
    """Turns of about three tokens; in each row their rewards and states, of which few values differ."""
    turn = np.cumsum(draw.random(shape) < 0.3, axis=1)
    turn -= turn[:, :1]
    reward, state = draw.integers(-1, 3, size=shape) / 2, draw.integers(0, 3, size=shape)
    state[:, 0] = 0
    of_tokens = {"turn_reward": reward, "turn_state": state}
    return {"turn": turn} | {name: np.take_along_axis(values, turn, axis=1) for name, values in of_tokens.items()}


def with_holes(case: Case, draw: np.random.Generator) -> Case:
    """The same batch with a third of the tokens out of the mask, but one of each response stays.

    Two in three of them an environment wrote.
    """
    key = draw.random(case.mask.shape)
    first = np.arange(case.mask.shape[1]) == draw.integers(0, np.maximum(case.extent, 1))[:, None]
    holes = case.mask & (key < 1 / 3) & ~first
    return replace(case, mask=case.mask & ~holes, heard=holes & (key < 2 / 9))


def without_holes(case: Case) -> Case:
    """The same batch with the tokens outside the mask behind those in it."""
    return _behind(case, ~case.mask)


def without_heard(case: Case, dropped: Flags) -> Case:
    """The same batch without some of the tokens that an environment wrote; the others move together."""
    gone = case.heard & dropped
    moved = _behind(case, gone)
    extent = case.extent - gone.sum(1)
    return replace(moved, extent=extent, heard=moved.heard & (np.arange(gone.shape[1]) < extent[:, None]))


def _behind(case: Case, last: Flags) -> Case:
    """The same batch with some tokens of each row behind the others, in their order but before padding."""
    is_there = np.arange(last.shape[1]) < case.extent[:, None]
    order = np.argsort(np.where(is_there, last, 2), axis=1, kind="stable")
    moved = {
        field.name: np.take_along_axis(getattr(case, field.name), order, axis=1)
        for field in fields(case)
        if np.shape(getattr(case, field.name)) == case.mask.shape and field.name != "rewards"
    }
    return replace(case, **moved)


def _grid(values: Array) -> Array:
    return np.round(values * GRID) / GRID


def _steps(draw: np.random.Generator, shape: tuple[int, ...], extreme: bool) -> Array:
    """Differences of log-probs: none, small ones, those around the clip bounds, extreme ones."""
    kind = draw.choice(4, size=shape, p=[0.25, 0.4, 0.25, 0.1] if extreme else [0.2, 0.5, 0.3, 0.0])
    sizes = np.choose(kind, [0.0, 0.05, 0.5, 0.0]) * draw.standard_normal(shape)
    far = draw.choice([-22.0, -15.0, -2.5, -1.2, 1.2, 2.5, 15.0, 22.0], size=shape)
    return _grid(np.where(kind == 3, far, sizes))


def _policies(draw: np.random.Generator, shape: tuple[int, ...], extreme: bool) -> tuple[Array, Array]:
    """Log-probs of the old and of the current policy; the larger is drawn, the other lies a step below."""
    rare = draw.choice([0.03, 0.3])
    kind = draw.choice(4, size=shape, p=[0.7 - rare, 0.2, rare, 0.1] if extreme else [0.9 - rare, 0.1, rare, 0.0])
    larger = np.choose(
        kind,
        [
            -np.abs(draw.standard_normal(shape)),
            -draw.integers(0, 3, size=shape) / GRID,
            -6.0 - np.abs(draw.standard_normal(shape)),
            -draw.uniform(20, 50, size=shape),
        ],
    )
    larger, step = _grid(larger), _steps(draw, shape, extreme)
    return larger - np.maximum(step, 0), larger + np.minimum(step, 0)


def _entropies(draw: np.random.Generator, shape: tuple[int, ...], high: bool) -> Array:
    """Entropies on a fine grid, on a coarse one, or all equal; their mean is above or below STARE's target."""
    if draw.random() < 0.1:
        return np.full(shape, 0.25)
    values = np.abs(draw.standard_normal(shape)) * (1.0 if high else 0.25)
    return _grid(values) if draw.random() < 0.5 else np.round(values * 8) / 8


def _random_keys(draw: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.int64]:
    """Different numbers, spread over all of int64."""
    count = shape[0] * shape[1]
    step = (1 << 64) // count
    return np.array([(place - count // 2) * step + step // 3 for place in draw.permutation(count).tolist()]).reshape(
        shape
    )


def _sums_of_squares(draw: np.random.Generator, logp: Array) -> Array:
    """The square of the sampled token's probability, and of up to nine others, on a grid of float32.

    A thousandth at least, so that what is left of 1 - 2 p + sum of p^2 is not its rounding; nothing where p = 1.
    """
    chance = np.exp(logp)
    others = np.maximum((1 - chance) ** 2 / draw.integers(1, 10, size=logp.shape), 1e-3 * (chance < 1))
    return np.round((chance**2 + others) * GRID**2) / GRID**2


def beyond_the_mask(case: Case, garbage: float, observed: bool = True) -> Case:
    """The same batch with another value on all padding, and on what an environment wrote where `observed`."""
    named = [name for name, it in FIELDS.items() if it.dtype is float and it.shape == "[N, T]"]
    values = {name: getattr(case, name) for name in named if hasattr(case, name)}
    kept = case.mask if observed else case.writer != Writer.NONE
    spoiled = {name: np.where(kept, value, garbage) for name, value in values.items() if value is not None}
    return replace(case, **spoiled)


def token_batch(case: Case, dtype: torch.dtype = torch.float64) -> TokenBatch:
    """The batch as the package takes it; a declared field that the case lacks has made-up values."""
    values = {}
    for field in fields(case):
        if field.name in ("heard", "extent"):  # the writer says it
            continue
        value = getattr(case, field.name)
        if isinstance(value, np.ndarray):
            value = torch.from_numpy(value)
            value = value.to(dtype) if value.is_floating_point() else value
        values[field.name] = value
    batch = TokenBatch(**values, writer=torch.from_numpy(case.writer))
    made = with_made_up_fields(batch).tensors()
    return batch.with_fields(**{name: made[name] for name in made if not hasattr(case, name)})
