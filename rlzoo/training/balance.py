"""Which process trains which row: each gets nearly equal work of every mini-batch, however long its own responses were.

An optimiser update takes as long as the fullest process. Work is counted in positions of forward passes; attention
between them is left out, as in `rlzoo.model.flops`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from objectives import Selected, whole_groups
from rlzoo.model.layout import Tree, grow_sizes, longest_first

TRAINING = 3
"""Forward passes that forward and backward of a row cost; scoring costs one."""


@dataclass(frozen=True)
class Work:
    """What the work on each of n rows depends on."""

    group: Sequence[int]
    """Whose rows have one prompt."""
    prompt_lengths: Sequence[int]
    lengths: Sequence[int]
    learns: Sequence[bool]
    """Whether it may have a gradient. Other rows are only scored."""

    def rows(self, index: Sequence[int]) -> "Work":
        """That of some rows."""
        return Work(
            group=[self.group[row] for row in index],
            prompt_lengths=[self.prompt_lengths[row] for row in index],
            lengths=[self.lengths[row] for row in index],
            learns=[self.learns[row] for row in index],
        )

    def trees(self, learning: bool, longest: int) -> list[Tree]:
        """The rows that learn, or the others, as forward passes share prompts among them; the largest first."""
        index = [row for row, learns in enumerate(self.learns) if learns is learning]
        part = self.rows(index)
        trees = grow_sizes(part.group, part.prompt_lengths, part.lengths, longest)
        return [Tree([index[row] for row in tree.rows], tree.size) for tree in trees]


def processes_by_work(work: Work, minibatches: int, processes: int, longest_tree: int) -> Tensor:
    """[N] int64 on the CPU: the process of each row of a batch, chosen for each mini-batch by itself."""
    process_of = torch.zeros(len(work.group), dtype=torch.long)
    for rows in whole_groups(torch.tensor(work.group), minibatches):
        process_of[rows] = torch.tensor(dealt(work.rows(rows.tolist()), processes, longest_tree), dtype=torch.long)
    return process_of


def dealt(work: Work, processes: int, longest_tree: int) -> list[int]:
    """The process of each row of a mini-batch.

    Responses that can share their prompt in a forward pass of at most `longest_tree` positions stay together, in parts
    as small as the fullest process is better off with.
    """
    deals = [_dealt(work, processes, longest) for longest in _halved(longest_tree)]
    return min(deals, key=lambda deal: deal.cost).process_of


@dataclass(frozen=True)
class _Deal:
    process_of: list[int]
    cost: int
    """Of the fullest process, in positions of a forward pass."""


def _dealt(work: Work, processes: int, longest: int) -> _Deal:
    """The rows that learn are dealt first, then the others on top, so that training and scoring are both balanced."""
    process_of, positions, fullest = [0] * len(work.group), [0] * processes, list[int]()
    for learning in (True, False):
        trees = work.trees(learning, longest)
        for tree, process in zip(trees, longest_first([tree.size for tree in trees], positions), strict=True):
            positions[process] += tree.size
            for row in tree.rows:
                process_of[row] = process
        fullest.append(max(positions))
    trained, scored = fullest
    return _Deal(process_of, TRAINING * trained + scored)


def _halved(longest: int) -> Iterator[int]:
    """From the longest tree down to 0, where every response has a prompt of its own."""
    while longest:
        yield longest
        longest //= 2
    yield 0


def may_learn(batch: Selected) -> Tensor:
    """[N] bool: rows that are selected, of groups whose rewards differ.

    That is what most objectives have a gradient for. One that has it for others too is balanced as well, since both
    kinds are.
    """
    _, group = batch.require("group", "balance").unique(return_inverse=True)
    reward = batch.require("reward", "balance")
    rewards = reward[:, None] if batch.rewards is None else torch.cat([reward[:, None], batch.rewards], 1)
    same = group[:, None].expand_as(rewards)
    first = torch.zeros_like(rewards).scatter_reduce(0, same, rewards, "amin", include_self=False)
    last = torch.zeros_like(rewards).scatter_reduce(0, same, rewards, "amax", include_self=False)
    return batch.selected & (first != last).any(1)[group]
