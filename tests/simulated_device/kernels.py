"""What CUDA's kernel for rows of several segments calculates, as torch documents it, by plain products on the CPU."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.attention.varlen  # registers the operators
from torch import Tensor


class _Segment(NamedTuple):
    rows: slice
    query: Tensor
    key: Tensor
    value: Tensor
    weights: Tensor


def _forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bounds: Tensor,
    bounds_of_keys: Tensor,
    longest: int,
    longest_keys: int,
    is_causal: bool = False,
    scale: float | None = None,
    window: Sequence[int] = (-1, -1),
    *_: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    assert bounds.dtype == torch.int32 and torch.equal(bounds, bounds_of_keys) and bounds[-1] == len(query)
    assert longest == longest_keys == bounds.diff().max() and not query.shape[-1] % 8
    assert all(it.dtype in (torch.bfloat16, torch.float16) and it.stride(-1) == 1 for it in (query, key, value))
    assert query.dtype == key.dtype == value.dtype
    out, lse = torch.zeros_like(query), query.new_zeros(query.shape[1], len(query), dtype=torch.float32)
    for it in _segments(query, key, value, bounds, is_causal, scale, window):
        out[it.rows] = (it.weights @ it.value).transpose(0, 1).to(out.dtype)
    return out, lse, torch.zeros(2, dtype=torch.uint64)


def _backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    bounds: Tensor,
    bounds_of_keys: Tensor,
    longest: int,
    longest_keys: int,
    is_causal: bool,
    state: Tensor,
    scale: float | None = None,
    window: Sequence[int] = (-1, -1),
) -> tuple[Tensor, Tensor, Tensor]:
    gradients = tuple(torch.zeros_like(it) for it in (query, key, value))
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    for it in _segments(query, key, value, bounds, is_causal, scale, window):
        above = gradient[it.rows].transpose(0, 1).float()
        of_weights = above @ it.value.mT
        of_scores = it.weights * (of_weights - (it.weights * of_weights).sum(-1, keepdim=True)) * factor
        for whole, part in zip(
            gradients, (of_scores @ it.key, of_scores.mT @ it.query, it.weights.mT @ above), strict=True
        ):
            heads = part.unflatten(0, (whole.shape[1], -1)).sum(1)
            whole[it.rows] = heads.transpose(0, 1).to(whole.dtype)
    return gradients


def _segments(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bounds: Tensor,
    is_causal: bool,
    scale: float | None,
    window: Sequence[int],
) -> Iterator[_Segment]:
    left, right = (math.inf if side < 0 else side for side in window)
    for start, end in zip(bounds.tolist(), bounds[1:].tolist(), strict=False):
        rows = slice(start, end)
        q, k, v = (it[rows].transpose(0, 1).float() for it in (query, key, value))
        k, v = (it.repeat_interleave(len(q) // len(it), 0) for it in (k, v))
        ahead = torch.arange(end - start) - torch.arange(end - start)[:, None]
        sees = (ahead <= (0 if is_causal else right)) & (-ahead <= left)
        scores = q @ k.mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
        yield _Segment(rows, q, k, v, scores.masked_fill(~sees, -math.inf).softmax(-1))


KERNELS: dict[Any, Callable[..., Any]] = {
    torch.ops.torch_attn._varlen_attn.default: _forward,
    torch.ops.torch_attn._varlen_attn_backward.default: _backward,
}
