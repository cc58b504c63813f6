"""Quantiles, choices and sums that depend on the tokens' values alone: not on rows, micro-batches or processes."""

import math

from objectives.errors import ObjectiveError
from objectives.lazy import Tensor, torch


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
    """Tensor.cumsum, whose order of additions CUDA leaves open: on the CPU where torch is told to be deterministic."""
    if values.is_cuda and torch.are_deterministic_algorithms_enabled():
        return values.cpu().cumsum(dim).to(values.device)
    return values.cumsum(dim)


def drawn(lot: Tensor, among: Tensor, count: int) -> Tensor:
    """[N, T] bool: the `count` tokens of the smallest `lot` [N, T] where `among` [N, T] is True."""
    return largest(~lot, among, count)


def uniform_of(lot: Tensor) -> Tensor:
    """[N, T] `lots` -> [N, T] float64 from 0 to 1. Raises ObjectiveError for numbers that are not int64."""
    if lot.dtype != torch.int64:
        raise ObjectiveError(f"lot is {lot.dtype}: give objectives.lots(group, width, seed), which fills all of int64")
    return (lot >> 11).double() / (1 << 53) + 0.5


def lots(group: Tensor, width: int, seed: int) -> Tensor:
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
