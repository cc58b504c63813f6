"""What equations say of rewards in words, and quantiles and shares."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tests.objectives.equations.parser import Value, quotient

if TYPE_CHECKING:
    from tests.objectives.equations.reader import Reader


def largest(values: Tensor, pool: Tensor, count: int) -> Tensor:
    """The `count` largest values of a pool, ties with the last one included."""
    if count == 0 or not pool.any():
        return torch.zeros_like(pool)
    return pool & (values >= values[pool].sort(descending=True).values[: min(count, int(pool.sum()))][-1])


def ceil(share: str, count: int) -> int:
    return math.ceil(Fraction(share.rstrip("%")) / (100 if share.endswith("%") else 1) * count)


def quantile(values: Tensor, share: str) -> float:
    """Interpolated linearly."""
    ordered = values.sort().values.tolist()
    position = Fraction(share.rstrip("%")) / (100 if share.endswith("%") else 1) * (len(ordered) - 1)
    low = math.floor(position)
    return ordered[low] + float(position - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def outermost(reader: Reader, share: str) -> None:
    """Selects the first and the last of each group in the order of reward, and of the smallest lot."""
    kept = torch.zeros_like(reader.selected)
    lot = torch.from_numpy(reader.case.lot).where(reader.mask, torch.iinfo(torch.int64).max).amin(1)
    for group in reader.groups_of(torch.ones_like(kept)):
        rows = group.nonzero()[:, 0].tolist()
        rows.sort(key=lambda row: (-float(reader.names["R"][row]), int(lot[row])))
        pairs = math.floor(Fraction(share) * (len(rows) // 2))
        kept[rows[:pairs] + rows[len(rows) - pairs :]] = True
    reader.select(kept)


def group_mean(reader: Reader, *_: str) -> Value:
    return reader.per_group(lambda rewards: rewards.mean())


def pass_at_k(reader: Reader, k: str) -> Tensor:
    result = torch.zeros_like(reader.correct)
    for group in reader.groups_of(reader.present()):
        right = (reader.correct[group, 0] == 1).tolist()
        sets = list(combinations(range(len(right)), min(int(k), len(right))))
        passed = [any(right[i] for i in chosen) for chosen in sets]
        rho = sum(passed) / len(sets)
        scores = [(p - rho) / (math.sqrt(rho * (1 - rho)) + 1e-6) for p in passed]
        own = [[score for score, chosen in zip(scores, sets, strict=True) if i in chosen] for i in range(len(right))]
        result[group] = torch.tensor([sum(values) / len(values) for values in own]).double()[:, None]
    return result


def over_batch(reader: Reader, values: Tensor, over: str, shift: bool) -> Tensor:
    """Values over their deviation (ddof 0) over the tokens, or the responses, of the batch; less their mean."""
    there = reader.mask & reader.present()[:, None]
    weight = there.double()
    if over == "rows":
        weight = weight / there.sum(1, keepdim=True).clamp(min=1)
    values = values + torch.zeros_like(weight)
    if shift:
        values = values - (weight * values).sum() / weight.sum().clamp(min=1e-300)
        values = values.where(values.abs() > 1e-12, 0.0)
    deviation = ((weight * values.square()).sum() / weight.sum().clamp(min=1e-300)).clamp(min=1e-8).sqrt()
    return values / deviation


def over_batch_deviation(reader: Reader, mean: str, over: str) -> Tensor:
    reward = reader.names["R"]
    if mean == "mean":
        return over_batch(reader, reward, over, shift=True)
    return over_batch(reader, reward - group_mean(reader), over, shift=over == "tokens")


def over_group(reader: Reader, middle: str, eps: str) -> Tensor:
    """(R - middle) / (std + eps); 0 where all rewards of the group are equal."""
    reward = reader.names["R"]
    if middle == "mean":
        centre = group_mean(reader)
    else:
        share, linear = middle.split("-quantile")
        smallest = lambda values: values[:, 0].sort().values[max(0, ceil(share, len(values)) - 1)]  # noqa: E731
        centre = reader.per_group(lambda values: quantile(values[:, 0], share) if linear else smallest(values))
    deviation = reader.per_group(lambda values: values.std() if len(values) > 1 else 0.0)
    constant = reader.per_group(lambda values: float(values.max() == values.min())) == 1
    return ((reward - centre) / (deviation + float(eps))).where(~constant, 0.0)


def decoupled(reader: Reader, eps: str, over: str) -> Tensor:
    """The rewards' z-scores added up, over the deviation of that with ddof 1; over tokens their mean is taken off."""
    total = torch.zeros_like(reader.names["R"])
    for column in torch.from_numpy(reader.case.rewards).unbind(1):
        for group in reader.groups_of(reader.present()):
            values = column[group, None]
            if len(values.unique()) > 1:
                total[group] += (values - values.mean()) / (values.std() + float(eps))
    if over == "tokens":
        each = total.expand(reader.mask.shape)[reader.mask & reader.present()[:, None]]
        return (total - each.mean()) / (each.var() + 1e-8).sqrt()
    return total / (total[reader.present()].std() + float(eps))


def over_group_population(reader: Reader) -> Tensor:
    """(R - mean) / std with ddof 0."""
    deviation = reader.per_group(lambda values: values.std(correction=0))
    return quotient(reader.names["R"] - group_mean(reader), deviation)


def whole_groups(reader: Reader, eps: str) -> Tensor:
    """GRPO's advantage, but 1 or -1 where all are right or wrong and earn the same."""
    success = torch.zeros_like(reader.correct)
    for group in reader.groups_of(reader.present()):
        success[group] = reader.correct[group].mean()
    constant = reader.per_group(lambda values: float(values.max() == values.min())) == 1
    whole = torch.where(success == 1, 1.0, torch.where(success == 0, -1.0, 0.0)).double()
    return torch.where(constant, whole, over_group(reader, "mean", eps))


def over_group_tokens(reader: Reader, eps: str, guard: str) -> Tensor:
    result, reward = over_group(reader, "mean", eps), reader.names["R"]
    for group in reader.groups_of(reader.present() & reader.mask.any(1)):
        values = reward[group, 0].repeat_interleave(reader.mask[group].sum(1))
        centred = reward - values.mean()
        centred = centred.where(centred.abs() > 1e-9, 0.0)
        scores = centred / (values.std(correction=0) + float(eps))
        if bool((scores[group].abs() < float(guard)).all()):
            members = reader.present() & (reader.group == reader.group[group][0])
            result[members] = scores[members]
    return result


def length_weighted(reader: Reader) -> Tensor:
    length, reward = reader.mask.sum(1, keepdim=True).double(), reader.names["R"]
    centred, result = reward - group_mean(reader), torch.zeros_like(reward)
    for group in reader.groups_of(reader.present()):
        total = length[group].sum().clamp(min=1)
        result[group] = centred[group] - (length[group] * centred[group]).sum() / total
    return result


def less_others(reader: Reader) -> Tensor:
    def others(rewards: Tensor) -> Tensor:
        return (rewards.sum() - rewards) / (len(rewards) - 1)

    return reader.names["R"] - reader.per_group(others)


def over_success(reader: Reader, eps: str) -> Tensor:
    result = torch.zeros_like(reader.correct)
    for group in reader.groups_of(reader.present()):
        correct = reader.correct[group]
        result[group] = (correct - correct.mean()) / (correct.mean() + float(eps))
    return result


def over_share(reader: Reader, what: str, eps: str | None) -> Tensor:
    rows = reader.present()
    reward = reader.names["R"]
    differs = reader.per_group(lambda values: float(values.max() != values.min()))[:, 0] == 1
    counted = differs if what == "in groups whose rewards differ" else reward[:, 0] != 0
    share = (counted & rows).sum().double() / rows.sum()
    return quotient(reward - group_mean(reader), share + float(eps or 0))


def batch_deviation(reader: Reader, eps: str) -> Tensor:
    reward, rows = reader.names["R"], reader.present()
    deviation = reward[rows].std() if int(rows.sum()) > 1 else torch.tensor(0.0)
    return (reward - group_mean(reader)) / (deviation + float(eps))


def group_success(reader: Reader) -> Tensor:
    result = torch.zeros_like(reader.correct)
    for group in reader.groups_of(torch.ones(len(result), dtype=torch.bool)):
        result[group] = reader.correct[group].mean()
    return result
