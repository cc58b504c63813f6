"""Log-probs and entropies straight from hidden states and the head's weight: the [M, V] logits never exist whole."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CPU_BLOCK = 2**21
GPU_BLOCK = 2**24
"""Logits calculated at a time. On a CPU they should stay in the cache, which makes this faster than all at once."""


def token_stats(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    temperature: float,
    bias: Tensor | None = None,
    with_entropy: bool = False,
    softcap: float | None = None,
    with_squares: bool = False,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Log-probs of `targets` [M], entropies [M] in nats and sums of squares [M] of softmax(logits / temperature).

    logits = softcapped(`hidden` [M, H] @ `weight` [V, H]^T + `bias` [V]), block by block over the vocabulary, again in
    the backward pass; gradients for all three, from log-probs and entropies, are exact; sums of squares have none.
    Results are float32, or float64 for float64 input. Under bfloat16 autocast, and for bfloat16 input, the operands of
    the products are rounded to bfloat16 but the logits are not.
    """
    rounded = _bfloat16_operands(hidden, weight)
    wanted = (with_entropy, with_squares)
    return _TokenStats.apply(hidden, weight, bias, targets, temperature, softcap, wanted, rounded)


def token_stats_of_logits(
    logits: Tensor, targets: Tensor, temperature: float, with_entropy: bool = False, with_squares: bool = False
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The same statistics of `logits` [M, V] that exist already."""
    logp = (logits.to(_exact_dtype(logits)) / temperature).log_softmax(-1)
    entropy = -(logp.exp() * logp).sum(-1) if with_entropy else None
    squares = (2 * logp.detach()).exp().sum(-1) if with_squares else None
    return logp.gather(1, targets[:, None]).squeeze(1), entropy, squares


def head_logits(hidden: Tensor, weight: Tensor, bias: Tensor | None = None, softcap: float | None = None) -> Tensor:
    """The logits [M, V] themselves, float32 and never rounded to bfloat16; no gradients."""
    rounded = _bfloat16_operands(hidden, weight)
    with torch.no_grad(), _products(hidden.device.type, rounded):
        return _logits(hidden.to(_exact_dtype(hidden)), weight, bias, softcap, rounded)


class _TokenStats(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        temperature: float,
        softcap: float | None,
        wanted: tuple[bool, bool],
        rounded: bool,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        with_entropy, with_squares = wanted
        states = hidden.to(_exact_dtype(hidden))
        maximum = states.new_full((len(states), 1), torch.finfo(states.dtype).min)
        total, spread, chosen, squares = (torch.zeros_like(maximum) for _ in range(4))
        with _products(hidden.device.type, rounded):
            for block in _blocks(hidden, weight):
                logits = _logits(states, weight[block], _part(bias, block), softcap, rounded)
                logits /= temperature
                index, inside = _position(targets, block)
                chosen += logits.gather(1, index) * inside
                higher = torch.maximum(maximum, logits.amax(1, keepdim=True))
                shift, maximum = maximum - higher, higher
                logits -= maximum
                if with_entropy:
                    weights = logits.exp()
                    spread = shift.exp() * (spread + total * shift)
                    spread += torch.linalg.vecdot(weights, logits)[:, None]
                else:
                    weights = logits.exp_()
                if with_squares:
                    squares = shift.exp().square() * squares + torch.linalg.vecdot(weights, weights)[:, None]
                total = shift.exp() * total + weights.sum(1, keepdim=True)
        normaliser = maximum + total.log()
        entropy = total.log() - spread / total if with_entropy else None
        ctx.save_for_backward(hidden, weight, bias, targets, normaliser, entropy)
        ctx.temperature, ctx.softcap, ctx.rounded = temperature, softcap, rounded
        ctx.set_materialize_grads(False)
        shares = (squares / total.square()).squeeze(1) if with_squares else None
        if shares is not None:
            ctx.mark_non_differentiable(shares)
        return (chosen - normaliser).squeeze(1), None if entropy is None else entropy.squeeze(1), shares

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_logp: Tensor | None, grad_entropy: Tensor | None, grad_squares: None
    ) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, targets, normaliser, entropy = ctx.saved_tensors
        states = hidden.to(_exact_dtype(hidden))
        grad_states = torch.zeros_like(states) if ctx.needs_input_grad[0] else None
        grad_weight = torch.empty_like(weight) if ctx.needs_input_grad[1] else None
        grad_bias = torch.empty_like(bias) if ctx.needs_input_grad[2] else None
        up_logp = torch.zeros_like(normaliser) if grad_logp is None else grad_logp[:, None] / ctx.temperature
        up_entropy = None if grad_entropy is None else grad_entropy[:, None] / ctx.temperature
        with _products(hidden.device.type, ctx.rounded):
            for block in _blocks(hidden, weight):
                logits = _logits(states, weight[block], _part(bias, block), ctx.softcap, ctx.rounded)
                slope = 1 - (logits / ctx.softcap) ** 2 if ctx.softcap else None
                grad = (logits.div_(ctx.temperature)).sub_(normaliser)
                # d logp / d logits = onehot - p;  d entropy / d logits = -p (log p + entropy)
                if up_entropy is None:
                    grad.exp_().mul_(-up_logp)
                else:
                    weights = grad.exp()
                    grad.add_(entropy).mul_(-up_entropy).sub_(up_logp).mul_(weights)
                index, inside = _position(targets, block)
                grad.scatter_add_(1, index, up_logp * inside)
                if slope is not None:
                    grad *= slope
                if grad_states is not None:
                    _add_product(grad_states, grad, weight[block].to(grad.dtype), ctx.rounded)
                if grad_weight is not None:
                    grad_weight[block] = _product(grad.T, states, ctx.rounded)
                if grad_bias is not None:
                    grad_bias[block] = grad.sum(0)
        grad_hidden = None if grad_states is None else grad_states.to(hidden.dtype)
        return grad_hidden, grad_weight, grad_bias, None, None, None, None, None


def _blocks(hidden: Tensor, weight: Tensor) -> Iterator[slice]:
    size = CPU_BLOCK if hidden.device.type == "cpu" else GPU_BLOCK
    width = max(256, size // max(1, len(hidden)))
    return (slice(start, min(start + width, len(weight))) for start in range(0, len(weight), width))


def _part(bias: Tensor | None, block: slice) -> Tensor | None:
    return None if bias is None else bias[block]


def _position(targets: Tensor, block: slice) -> tuple[Tensor, Tensor]:
    """Where in the block each target lies, clamped, [M, 1]; and whether it does, [M, 1] bool."""
    index = targets[:, None] - block.start
    width = block.stop - block.start
    return index.clamp(0, width - 1), (index >= 0) & (index < width)


def _logits(states: Tensor, weight: Tensor, bias: Tensor | None, softcap: float | None, rounded: bool) -> Tensor:
    logits = _product(states, weight.to(states.dtype).T, rounded)
    if bias is not None:
        logits += bias
    return logits.div_(softcap).tanh_().mul_(softcap) if softcap else logits


def _exact_dtype(tensor: Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def _bfloat16_operands(hidden: Tensor, weight: Tensor) -> bool:
    device = hidden.device.type
    autocast = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) == torch.bfloat16
    return hidden.dtype != torch.float64 and (autocast or torch.bfloat16 in (hidden.dtype, weight.dtype))


@contextmanager
def _products(device: str, rounded: bool) -> Iterator[None]:
    """Autocast off; on a CPU, if `rounded`, oneDNN rounds float32 operands to bfloat16 but accumulates in float32."""
    matmul: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = matmul.fp32_precision
    with torch.autocast(device, enabled=False):
        try:
            if rounded:
                matmul.fp32_precision = "bf16"
            yield
        finally:
            matmul.fp32_precision = before


def _product(left: Tensor, right: Tensor, rounded: bool) -> Tensor:
    if rounded and left.is_cuda:
        return torch.mm(left.bfloat16(), right.bfloat16(), out_dtype=torch.float32)
    return torch.mm(left, right)


def _add_product(total: Tensor, left: Tensor, right: Tensor, rounded: bool) -> None:
    if rounded and left.is_cuda:
        total += _product(left, right, rounded)
    else:
        total.addmm_(left, right)
