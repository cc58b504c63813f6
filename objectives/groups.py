"""Sums, means and comparisons, most of them within groups of rows."""

from collections.abc import Mapping

from objectives.lazy import Tensor, torch


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


def pushed(extra: Mapping[str, Tensor], logp: Tensor) -> Tensor:
    """[n, t] a loss of `value` [n] that pushes each log-prob of a response by `push` [n], both settled over groups."""
    return extra["value"][:, None] - extra["push"][:, None] * (logp - logp.detach())


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
