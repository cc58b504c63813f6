"""Operations on rows and tokens whose result depends on their values alone; and torch, imported when it is first used.

Neither the order of rows and groups, nor the cut into micro-batches or processes, nor padding has a say.
Expressions are read and checked without waiting for torch.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from objectives.errors import ObjectiveError

# ---- torch -----------------------------------------------------------------------------------------------------------

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:

    class _Torch:
        """Stands for the module."""

        def __getattr__(self, name: str) -> Any:
            import torch

            self.__dict__ = torch.__dict__  # where Python finds from now on what is asked for
            return getattr(torch, name)

    class _TensorType(type):
        def __instancecheck__(cls, instance: object) -> bool:
            import torch

            return isinstance(instance, torch.Tensor)

    class Tensor(metaclass=_TensorType):
        """Stands for the class, in annotations and in `isinstance`."""

    torch = _Torch()

__all__ = ["Tensor", "torch", "without_gradients"]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def without_gradients(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Carries out a function under `torch.no_grad()`, which as a decorator would import torch where it stands."""

    @functools.wraps(function)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        with torch.no_grad():
            return function(*args, **kwargs)

    return run


# ---- within groups of rows ------------------------------------------------------------------------------------------


def group_index(group: Tensor) -> tuple[Tensor, int]:
    """[N] arbitrary group numbers -> [N] numbers 0..groups-1, and how many groups there are."""
    names, index = torch.unique(group, return_inverse=True)
    return index, len(names)


def group_sum(values: Tensor, index: Tensor, groups: int) -> Tensor:
    """[N] values -> [groups] sums."""
    return values.new_zeros(groups).index_add(0, index, values)


def group_mean(values: Tensor, index: Tensor, groups: int) -> Tensor:
    """[N] values -> [groups] means."""
    return group_sum(values, index, groups) / group_sum(torch.ones_like(values), index, groups)


def group_centred(values: Tensor, index: Tensor, groups: int) -> Tensor:
    """[N] values minus their group's mean, exactly zero where the two differ by no more than the mean's rounding."""
    centred = values - group_mean(values, index, groups)[index]
    size = group_sum(torch.ones_like(values), index, groups)
    largest = values.new_zeros(groups).scatter_reduce(0, index, values.abs(), "amax")
    rounding = size * largest * torch.finfo(values.dtype).eps
    return centred.where(centred.abs() > rounding[index], 0.0)


def group_is_there(mask: Tensor, index: Tensor, groups: int) -> Tensor:
    """[N] bool: rows in whose group some row has a token of `mask` [N, T]."""
    return group_sum(mask.sum(1), index, groups)[index] > 0


def group_deviation(centred: Tensor, index: Tensor, groups: int) -> Tensor:
    """[N] values less their group's mean -> [groups] standard deviations, ddof 1."""
    size = group_sum(torch.ones_like(centred), index, groups)
    return (group_sum(centred.square(), index, groups) / (size - 1)).sqrt()


def group_log_softmax(values: Tensor, there: Tensor, index: Tensor, groups: int) -> Tensor:
    """[N] values -> logarithms of their softmax over the rows of their group that are `there` [N]; -inf of others."""
    values = values.where(there, -torch.inf)
    highest = values.new_zeros(groups).scatter_reduce(0, index, values, "amax", include_self=False)
    apart = (values - highest[index]).where(there, -torch.inf)
    return apart - group_sum(apart.exp(), index, groups).log()[index]


def settled(extra: Mapping[str, Tensor], logp: Tensor) -> Tensor:
    """[n, t] a loss of `value` [n] whose `slope` [n] by a response's log-probs is settled over groups as well."""
    return extra["value"][:, None] - extra["slope"][:, None] * (logp - logp.detach())


def centred(values: Tensor, weight: Tensor) -> Tensor:
    """Values minus their weighted mean, exactly zero where the two differ by no more than the mean's rounding."""
    total = weight.sum().clamp(min=torch.finfo(weight.dtype).tiny)
    difference = values - (weight * values).sum() / total
    magnitude = (weight * values.abs()).sum() / total
    rounding = 32 * torch.finfo(values.dtype).eps * magnitude  # pairwise sums of n numbers are off by eps log2(n)
    return difference.where(difference.abs() > rounding, 0.0)


def group_is_constant(values: Tensor, index: Tensor, groups: int) -> Tensor:
    """[N] bool: rows in whose group all values are equal, decided without rounding."""
    zeros = values.new_zeros(groups)
    highest = zeros.scatter_reduce(0, index, values, "amax", include_self=False)
    lowest = zeros.scatter_reduce(0, index, values, "amin", include_self=False)
    return (highest == lowest)[index]


# ---- quantiles and choices ------------------------------------------------------------------------------------------


def quantile(values: Tensor, q: float) -> Tensor:
    """The q-quantile of [n] values, interpolated linearly; unlike torch.quantile, for any n."""
    ordered = values.sort().values
    position = round(q * (len(ordered) - 1), 9)  # a quantile that falls on a value is that value
    below = min(math.floor(position), len(ordered) - 1)
    above = min(below + 1, len(ordered) - 1)
    return torch.lerp(ordered[below], ordered[above], position - below)


def largest(values: Tensor, among: Tensor, count: int) -> Tensor:
    """[N, T] bool: the `count` largest values where `among` [N, T] is True; ties at the boundary are all taken."""
    pool = values[among]
    taken = min(count, len(pool))
    if taken <= 0:
        return torch.zeros_like(among)
    return among & (values >= torch.topk(pool, taken).values[-1])


def running_sum(values: Tensor, dim: int) -> Tensor:
    """Tensor.cumsum, whose order of additions CUDA leaves open: on the CPU where torch has to be deterministic."""
    if values.is_cuda and torch.are_deterministic_algorithms_enabled():
        return values.cpu().cumsum(dim).to(values.device)
    return values.cumsum(dim)


def random_subset(key: Tensor, among: Tensor, count: int) -> Tensor:
    """[N, T] bool: the `count` tokens of the smallest random key [N, T] where `among` [N, T] is True."""
    return largest(~key, among, count)


def uniform_of(key: Tensor) -> Tensor:
    """[N, T] `random_keys` -> [N, T] float64 from 0 to 1. Raises ObjectiveError for numbers that are not int64."""
    if key.dtype != torch.int64:
        raise ObjectiveError(f"random_key is {key.dtype}. Give objectives.random_keys(group, width, seed).")
    return (key >> 11).double() / (1 << 53) + 0.5


def random_keys(group: Tensor, width: int, seed: int) -> Tensor:
    """[N, width] int64 that look random: of each token's group [N], its row's place there, its position, and the seed.

    The rows of a group have to come in the same order on every process; the groups, in any.
    """
    order = group.sort(stable=True).indices
    index, sizes = torch.unique(group, return_inverse=True, return_counts=True)[1:]
    place = torch.empty_like(order)
    place[order] = torch.arange(len(group), device=group.device) - (sizes.cumsum(0) - sizes)[index[order]]
    of_row = _mixed(_mixed(torch.full_like(group, seed).long()) + group.long())
    position = torch.arange(width, device=group.device)
    return _mixed(_mixed(_mixed(of_row) + place)[:, None] + position)


def _mixed(number: Tensor) -> Tensor:
    """The splitmix64 of int64 numbers."""
    number = number + _signed(0x9E3779B97F4A7C15)
    number = (number ^ _shifted(number, 30)) * _signed(0xBF58476D1CE4E5B9)
    number = (number ^ _shifted(number, 27)) * _signed(0x94D049BB133111EB)
    return number ^ _shifted(number, 31)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _shifted(number: Tensor, bits: int) -> Tensor:
    """The 64 bits moved right, with zeros coming in."""
    return (number >> bits) & ((1 << (64 - bits)) - 1)


# ---- recurrences along a response -----------------------------------------------------------------------------------


def recurrence(decay: Tensor, step: Tensor) -> Tensor:
    """[N, T] x with x_t = decay_t x_{t-1} + step_t from x = 0; a token with decay 1 and step 0 is not there.

    By doubling: each round puts the maps of twice as many tokens together, and nothing is divided.
    """
    width, distance = step.shape[1], 1
    while distance < width:
        shifted = torch.nn.functional.pad(step[:, :-distance], (distance, 0))
        earlier = torch.nn.functional.pad(decay[:, :-distance], (distance, 0))
        step = decay * shifted + step
        decay = decay * earlier
        distance *= 2
    return step
