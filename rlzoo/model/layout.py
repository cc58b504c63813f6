"""How prompts and responses lie in the rows of a forward pass: a prompt once, its responses behind it, rows filled up.

A tree is a prompt and some responses to it. Its responses see the prompt and themselves, their positions continue the
prompt's, and several trees share a row without seeing each other; so values and gradients are those of every response
behind a prompt of its own.

An optimiser update takes as long as the rank with the most work. Work is counted in positions of forward passes;
attention between them is left out, as in `Policy.forward_flops`.
"""

import heapq
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from objectives import whole_groups


@dataclass(frozen=True)
class Responses:
    """The prompts of n responses, and the responses: `tokens` [n, T] and their `lengths` [n]; `mask` [n, T] are those
    whose statistics are asked for, the others are context. All on the CPU, where rows are laid out.
    """

    prompts: Sequence[Sequence[int]]
    tokens: Tensor
    lengths: Tensor
    mask: Tensor

    def rows(self, index: Tensor) -> "Responses":
        """Some of them, no wider than the longest."""
        width = int(self.lengths[index].max())
        prompts = [self.prompts[row] for row in index.tolist()]
        return Responses(prompts, self.tokens[index, :width], self.lengths[index], self.mask[index, :width])


def following(prompts: Sequence[Sequence[int]]) -> Responses:
    """Each prompt of two tokens or more as a response to the first of them."""
    lengths = torch.tensor([len(prompt) - 1 for prompt in prompts], dtype=torch.long)
    tokens = torch.zeros(len(prompts), int(lengths.max()) if prompts else 0, dtype=torch.long)
    for row, prompt in enumerate(prompts):
        tokens[row, : len(prompt) - 1] = torch.tensor(prompt[1:])
    return Responses(
        [prompt[:1] for prompt in prompts], tokens, lengths, torch.arange(tokens.shape[1]) < lengths[:, None]
    )


@dataclass(frozen=True)
class Tree:
    """Responses (by row number) to one prompt, and the positions that they take together.

    The last token of a response takes none: nothing is predicted from it.
    """

    rows: list[int]
    size: int


def grow(prompts: Sequence[Sequence[int]], lengths: Sequence[int], longest: int) -> list[Tree]:
    """Trees of at most `longest` positions (but of one response at least), the largest first.

    `prompts` and `lengths` are those of each response; responses to one prompt need not be neighbours.
    """
    return grow_sizes([tuple(prompt) for prompt in prompts], [len(prompt) for prompt in prompts], lengths, longest)


def grow_sizes(
    keys: Sequence[Hashable], prompt_lengths: Sequence[int], lengths: Sequence[int], longest: int
) -> list[Tree]:
    """Grows trees like `grow`, from a key of each prompt (equal for equal prompts) and its length."""
    same: dict[Hashable, list[int]] = {}
    for row, key in enumerate(keys):
        same.setdefault(key, []).append(row)
    trees: list[Tree] = []
    for rows in same.values():
        open_tree: list[int] = []
        size = prompt_lengths[rows[0]]
        for row in rows:
            more = max(0, lengths[row] - 1)
            if open_tree and size + more > longest:
                trees.append(Tree(open_tree, size))
                open_tree, size = [], prompt_lengths[row]
            open_tree.append(row)
            size += more
        trees.append(Tree(open_tree, size))
    return sorted(trees, key=lambda tree: -tree.size)


def pack(trees: Sequence[Tree], budget: float = math.inf, one_each: bool = False) -> list[list[list[Tree]]]:
    """Micro-batches of rows of trees; the rows of a micro-batch are as long as its first tree.

    `trees` come largest first; each goes into the first row with room, or, if `one_each`, into a row of its own. A
    micro-batch takes rows until their positions would exceed the budget; a tree beyond the budget gets one for itself.
    """
    batches: list[list[list[Tree]]] = []
    room: list[int] = []
    for tree in trees:
        row = next((row for row, left in enumerate(room) if tree.size <= left), None) if not one_each else None
        if row is None:
            if not batches or (len(room) + 1) * batches[-1][0][0].size > budget:
                batches.append([])
                room = []
            batches[-1].append([])
            row = len(room)
            room.append(batches[-1][0][0].size if row else tree.size)
        batches[-1][row].append(tree)
        room[row] -= tree.size
    return batches


def balanced(sizes: Sequence[int], budget: int) -> list[int]:
    """The part of each item, in as few parts as the budget asks for, all of about the same size."""
    return longest_first(sizes, [0] * max(1, min(len(sizes), math.ceil(sum(sizes) / budget))))


def longest_first(sizes: Sequence[int], sizes_so_far: Sequence[int]) -> list[int]:
    """The part of each item, where parts hold something already: the largest come first, each into the smallest part.

    Of empty parts the largest then has at most 4/3 of what it has in the best division (Graham 1969), and where items
    are many, nearly the mean.
    """
    heap = [(size, part) for part, size in enumerate(sizes_so_far)]
    heapq.heapify(heap)
    part_of = [0] * len(sizes)
    for item in sorted(range(len(sizes)), key=lambda item: -sizes[item]):
        size, part_of[item] = heap[0]
        heapq.heapreplace(heap, (size + sizes[item], part_of[item]))
    return part_of


def filled(sizes: Sequence[int], budget: int) -> list[list[int]]:
    """Items in parts of at most the budget, if they can: each, the largest first, into the first part with room."""
    parts: list[list[int]] = []
    room = np.full(len(sizes), budget)  # of parts that are not begun, too
    for item in sorted(range(len(sizes)), key=lambda item: -sizes[item]):
        fits = room[: len(parts)] >= sizes[item]
        part = int(fits.argmax()) if fits.any() else len(parts)
        if part == len(parts):
            parts.append([])
        parts[part].append(item)
        room[part] -= sizes[item]
    return parts


@dataclass(frozen=True)
class Layout:
    """The inputs of a forward pass, and where in its outputs each response token is predicted.

    It is made on the CPU. `inputs` [R, L]; `predicted_at` two [M], row and column, of every response token in the order
    of the responses. None where plain causal attention from position 0 is meant are `position` [R, L], and `tree` and
    `branch` [R, L], which number the trees (padding is one too) and the responses in them (0 is the prompt).
    Where one row holds responses without masks, its `segments` are their lengths, and `bounds` [n + 1] int32 where each
    begins, and the last ends.
    """

    inputs: Tensor
    predicted_at: tuple[Tensor, Tensor]
    position: Tensor | None = None
    tree: Tensor | None = None
    branch: Tensor | None = None
    segments: tuple[int, ...] = ()
    bounds: Tensor | None = None

    def on(self, device: torch.device) -> "Layout":
        """Copies the layout to a device."""
        moved: dict[str, Any] = {
            name: to_device(value, device) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        row, column = (to_device(index, device) for index in self.predicted_at)
        return replace(self, **moved, predicted_at=(row, column))

    def of(self, seen: Tensor) -> "Layout":
        """Returns the layout with statistics asked for only at the response tokens `seen` [M] bool."""
        row, column = self.predicted_at
        return replace(self, predicted_at=(row[seen], column[seen]))

    def attention(self, window: int | None = None) -> Tensor:
        """[R, 1, L, L] bool: which position sees which, within a sliding window if the model has one."""
        assert self.tree is not None and self.branch is not None and self.position is not None
        branch, length = self.branch, self.inputs.shape[1]
        sees = (branch[:, None] == branch[:, :, None]) | (branch[:, None] == 0)
        sees &= self.tree[:, None] == self.tree[:, :, None]
        sees &= torch.ones(length, length, dtype=torch.bool, device=branch.device).tril()
        if window is not None:
            sees &= self.position[:, :, None] - self.position[:, None] < window
        return sees[:, None]


def packed(prompts: Sequence[Sequence[int]], tokens: Tensor, lengths: Sequence[int], longest: int) -> Layout:
    """Trees of at most `longest` positions in as few rows as are needed; padded if no two responses share a row."""
    trees = grow(prompts, lengths, longest)
    (rows,) = pack(trees)
    if all(len(row) == 1 and len(row[0].rows) == 1 for row in rows):
        return padded(prompts, tokens, lengths)
    shape = len(rows), trees[0].size
    inputs, position, branch = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    tree_number = np.full(shape, -1, dtype=np.int64)
    responses = tokens.numpy()
    at: list[tuple[int, np.ndarray]] = [(0, np.zeros(0, dtype=np.int64))] * len(lengths)
    for r, row in enumerate(rows):
        end = 0
        for t, tree in enumerate(row):
            prompt = prompts[tree.rows[0]]
            start, last = end, end + len(prompt) - 1
            inputs[r, start : last + 1] = prompt
            position[r, start : last + 1] = np.arange(len(prompt))
            end = last + 1
            for number, response in enumerate(tree.rows, 1):
                more = max(0, lengths[response] - 1)
                here = slice(end, end + more)
                inputs[r, here] = responses[response, :more]
                position[r, here] = len(prompt) + np.arange(more)
                branch[r, here] = number
                at[response] = r, np.array([last, *range(end, end + more)][: lengths[response]], dtype=np.int64)
                end += more
            tree_number[r, start:end] = t
    predicted_row = np.repeat([r for r, _ in at], lengths)
    predicted_column = np.concatenate([columns for _, columns in at])
    return Layout(
        torch.from_numpy(inputs),
        (torch.from_numpy(predicted_row), torch.from_numpy(predicted_column)),
        torch.from_numpy(position),
        torch.from_numpy(tree_number),
        torch.from_numpy(branch),
    )


def padded(prompts: Sequence[Sequence[int]], tokens: Tensor, lengths: Sequence[int]) -> Layout:
    """Every response behind a prompt of its own, padded on the right, where causal attention never looks."""
    starts = torch.tensor([[len(prompt)] for prompt in prompts])
    longest = max(len(prompt) for prompt in prompts)
    prompt = torch.tensor([[*prompt, *[0] * (longest - len(prompt))] for prompt in prompts])
    sizes = torch.tensor(lengths)[:, None]
    ends = starts + (sizes - 1).clamp(min=0)
    column = torch.arange(max(1, int(ends.max()))).expand(len(prompts), -1)
    inputs = torch.where(
        column < starts,
        prompt.gather(1, column.clamp(max=longest - 1)),
        tokens.gather(1, (column - starts).clamp(0, tokens.shape[1] - 1)),
    )
    row, place = (torch.arange(tokens.shape[1]) < sizes).nonzero(as_tuple=True)
    return Layout(inputs.where(column < ends, 0), (row, starts[row, 0] + place - 1))


def in_one_row(prompts: Sequence[Sequence[int]], tokens: Tensor, lengths: Sequence[int]) -> Layout:
    """Every response behind a prompt of its own, and all of them behind each other in one row, nothing between them."""
    responses = tokens.numpy()
    inputs = [
        np.array([*prompt, *row[: max(0, n - 1)]]) for prompt, row, n in zip(prompts, responses, lengths, strict=True)
    ]
    segments = [len(row) for row in inputs]
    bounds = np.cumsum([0, *segments])
    first = bounds[:-1] + [len(prompt) - 1 for prompt in prompts]
    column = np.concatenate([start + np.arange(n) for start, n in zip(first, lengths, strict=True)])
    return Layout(
        torch.from_numpy(np.concatenate(inputs))[None],
        (torch.zeros(len(column), dtype=torch.long), torch.from_numpy(column)),
        torch.from_numpy(np.concatenate([np.arange(size) for size in segments]))[None],
        segments=tuple(segments),
        bounds=torch.from_numpy(bounds.astype(np.int32)),
    )


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on the device; CUDA copies it in the background, so that the host goes on."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


# ---- which rank trains which row -------------------------------------------------------------------------------------

TRAINING = 3
"""Forward passes that forward and backward of a row cost; scoring costs one."""


@dataclass(frozen=True)
class Work:
    """What the work on each of n rows depends on."""

    group: Sequence[int]
    """Prompt group of each row; the rows of a group have one prompt."""
    prompt_lengths: Sequence[int]
    lengths: Sequence[int]
    learns: Sequence[bool]
    """Whether it may have a gradient. Other rows are only scored."""

    def rows(self, index: Sequence[int]) -> "Work":
        """The work on some rows."""
        return Work(*([values[row] for row in index] for values in vars(self).values()))

    def trees(self, learning: bool, longest: int) -> list[Tree]:
        """The rows that learn, or the others, as forward passes share prompts among them; the largest first."""
        index = [row for row, learns in enumerate(self.learns) if learns is learning]
        part = self.rows(index)
        trees = grow_sizes(part.group, part.prompt_lengths, part.lengths, longest)
        return [Tree([index[row] for row in tree.rows], tree.size) for tree in trees]


def assign_minibatches(work: Work, minibatches: int, ranks: int, longest_tree: int) -> Tensor:
    """[N] int64 on the CPU: the rank of each row of a batch, chosen for each mini-batch by itself."""
    rank_of = torch.zeros(len(work.group), dtype=torch.long)
    for rows in whole_groups(torch.tensor(work.group), minibatches):
        rank_of[rows] = torch.tensor(assign_rows(work.rows(rows.tolist()), ranks, longest_tree), dtype=torch.long)
    return rank_of


def assign_rows(work: Work, ranks: int, longest_tree: int) -> list[int]:
    """The rank of each row of a mini-batch.

    Responses that can share their prompt in a forward pass of at most `longest_tree` positions stay together, in parts
    as small as the fullest rank is better off with.
    """
    halves = [longest_tree >> times for times in range(longest_tree.bit_length())]
    assigned = [_assign_trees(work, ranks, longest) for longest in (*halves, 0)]  # 0: each response has its own prompt
    return min(assigned, key=lambda deal: deal[1])[0]


def _assign_trees(work: Work, ranks: int, longest: int) -> tuple[list[int], int]:
    """The rank of each row, and what the fullest rank has to do, in positions of a forward pass.

    The rows that learn come first, then the others on top, so that training and scoring are both balanced.
    """
    rank_of, positions, fullest = [0] * len(work.group), [0] * ranks, list[int]()
    for learning in (True, False):
        trees = work.trees(learning, longest)
        for tree, rank in zip(trees, longest_first([tree.size for tree in trees], positions), strict=True):
            positions[rank] += tree.size
            for row in tree.rows:
                rank_of[row] = rank
        fullest.append(max(positions))
    trained, scored = fullest
    return rank_of, TRAINING * trained + scored
