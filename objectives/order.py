"""Quantiles and choices that depend on the values of tokens alone: not on rows, padding, micro-batches or processes."""

import math

import torch
from torch import Tensor


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


def drawn(values: Tensor, among: Tensor, count: int) -> Tensor:
    """[N, T] bool: `count` tokens where `among` [N, T] is True, by lot; tokens of equal values are drawn together.

    Values are rounded to float32 first, so that float64 log-probs draw the same however a forward pass is cut.
    """
    return largest(~lottery(values.float()), among, count)


def lottery(values: Tensor) -> Tensor:
    """A number for each value, int64 of the same shape, that looks random and depends on the value alone.

    It is splitmix64 of the value's float64 bits with the highest bit flipped, so that the order of the signed numbers
    is that of the unsigned ones. Taking the smallest draws a sample that needs no random generator.
    """
    number = (values.double() + 0.0).view(torch.int64) + _signed(0x9E3779B97F4A7C15)
    number = (number ^ _shifted(number, 30)) * _signed(0xBF58476D1CE4E5B9)
    number = (number ^ _shifted(number, 27)) * _signed(0x94D049BB133111EB)
    return number ^ _shifted(number, 31) ^ _signed(1 << 63)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _shifted(number: Tensor, bits: int) -> Tensor:
    """The 64 bits moved right, with zeros coming in."""
    return (number >> bits) & ((1 << (64 - bits)) - 1)
