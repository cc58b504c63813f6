"""Log-probs and entropies straight from hidden states and the head's weight: the [M, V] logits never exist whole."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from rlzoo.model.sizes import CPU_BLOCK, GPU_BLOCK


def token_stats(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    temperature: float,
    bias: Tensor | None = None,
    with_entropy: bool = False,
    softcap: float | None = None,
    with_squares: bool = False,
    compiled: bool = False,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Log-probs of `targets` [M], entropies [M] in nats and sums of squares [M] of softmax(logits / temperature).

    logits = softcapped(`hidden` [M, H] @ `weight` [V, H]^T + `bias` [V]), block by block over the vocabulary, again in
    the backward pass; gradients for all three, from log-probs and entropies, are exact; sums of squares have none.
    Results are float32, or float64 for float64 input. Under bfloat16 autocast, and for bfloat16 input, the operands of
    the products are rounded to bfloat16 but the logits are not. `compiled` fuses what is done to each block with
    torch.compile, for long runs on a GPU: the same values to rounding.
    """
    rounded = _bfloat16_operands(hidden, weight)
    wanted = (with_entropy, with_squares)
    return _TokenStats.apply(hidden, weight, bias, targets, temperature, softcap, wanted, rounded, compiled)


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
        return _logits(_operand(hidden, rounded), weight, bias, softcap, rounded)


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
        compiled: bool,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        with_entropy, with_squares = wanted
        absorb = _kernel(_absorb, compiled)
        states = _operand(hidden, rounded)
        chosen = states.new_zeros((len(states), 1), dtype=_exact_dtype(hidden))
        running = (torch.full_like(chosen, torch.finfo(chosen.dtype).min), *(torch.zeros_like(chosen) for _ in "123"))
        with _products(hidden.device.type, rounded):
            for block in _blocks(hidden, weight):
                logits = _logits(states, weight[block], _part(bias, block), softcap, rounded)
                if temperature != 1:
                    logits /= temperature
                index, inside = _position(targets, block)
                chosen += logits.gather(1, index) * inside
                running = absorb(logits, *running, with_entropy, with_squares, not compiled)
        maximum, total, spread, squares = running
        normaliser = maximum + total.log()
        entropy = total.log() - spread / total if with_entropy else None
        ctx.save_for_backward(hidden, weight, bias, targets, normaliser, entropy)
        ctx.temperature, ctx.softcap, ctx.rounded, ctx.compiled = temperature, softcap, rounded, compiled
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
        slope = _kernel(_slope, ctx.compiled)
        states = _operand(hidden, ctx.rounded)
        needs_states, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        grad_states = torch.zeros_like(states, dtype=normaliser.dtype) if needs_states else None
        grad_weight = torch.empty_like(weight) if needs_weight else None
        grad_bias = torch.empty_like(bias) if needs_bias else None
        up_logp = torch.zeros_like(normaliser) if grad_logp is None else grad_logp[:, None] / ctx.temperature
        up_entropy = None if grad_entropy is None else grad_entropy[:, None] / ctx.temperature
        with _products(hidden.device.type, ctx.rounded):
            for block in _blocks(hidden, weight):
                columns = _operand(weight[block], ctx.rounded, states.dtype)
                logits = _logits(states, columns, _part(bias, block), ctx.softcap, ctx.rounded)
                index, inside = _position(targets, block)
                grad = slope(
                    logits,
                    normaliser,
                    entropy,
                    up_logp,
                    up_entropy,
                    index,
                    inside,
                    ctx.temperature,
                    ctx.softcap,
                    not ctx.compiled,
                )
                if grad_bias is not None:
                    grad_bias[block] = grad.sum(0)
                grad = grad.to(states.dtype)
                if grad_states is not None:
                    grad_states = _add_product(grad_states, grad, columns, ctx.rounded)
                if grad_weight is not None:
                    grad_weight[block] = _product(grad.T, states, ctx.rounded)
        grad_hidden = None if grad_states is None else grad_states.to(hidden.dtype)
        return grad_hidden, grad_weight, grad_bias, None, None, None, None, None, None


# ---- what is done to a block of logits [M, W]: in place, or compiled into one kernel --------------------------------


def _absorb(
    logits: Tensor,
    maximum: Tensor,
    total: Tensor,
    spread: Tensor,
    squares: Tensor,
    with_entropy: bool,
    with_squares: bool,
    in_place: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The running maximum, sum of exponentials, their sum of e^x x, and of squares, each [M, 1], with a block more."""
    higher = torch.maximum(maximum, logits.amax(1, keepdim=True))
    shift, maximum = maximum - higher, higher
    logits = torch.sub(logits, maximum, out=logits if in_place else None)
    weights = torch.exp(logits, out=logits if in_place and not with_entropy else None)
    if with_entropy:
        spread = shift.exp() * (spread + total * shift) + torch.linalg.vecdot(weights, logits)[:, None]
    if with_squares:
        squares = shift.exp().square() * squares + torch.linalg.vecdot(weights, weights)[:, None]
    return maximum, shift.exp() * total + weights.sum(1, keepdim=True), spread, squares


def _slope(
    logits: Tensor,
    normaliser: Tensor,
    entropy: Tensor | None,
    up_logp: Tensor,
    up_entropy: Tensor | None,
    index: Tensor,
    inside: Tensor,
    temperature: float,
    softcap: float | None,
    in_place: bool,
) -> Tensor:
    """The gradient of a block of logits, of those before softcap.

    d logp / d logits = onehot - p; d entropy / d logits = -p (log p + entropy).
    """
    out = logits if in_place else None
    inner = 1 - (logits / softcap) ** 2 if softcap else None
    scaled = logits if temperature == 1 else torch.div(logits, temperature, out=out)
    logp = torch.sub(scaled, normaliser, out=out)
    if up_entropy is None or entropy is None:
        grad = torch.mul(torch.exp(logp, out=out), -up_logp, out=out)
    else:
        weights = logp.exp()
        grad = torch.mul(torch.add(logp, entropy, out=out), -up_entropy, out=out)
        grad = torch.mul(torch.sub(grad, up_logp, out=out), weights, out=out)
    if in_place:
        grad.scatter_add_(1, index, up_logp * inside)
    else:  # a scatter would be a kernel of its own
        columns = torch.arange(grad.shape[1], device=grad.device)
        grad = grad + torch.where((columns == index) & inside, up_logp, 0.0)
    return grad if inner is None else torch.mul(grad, inner, out=out)


@cache
def _kernel(function: Callable[..., Any], compiled: bool) -> Callable[..., Any]:
    return torch.compile(function, dynamic=True) if compiled else function


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
    logits = _product(states, _operand(weight, rounded, states.dtype).T, rounded)
    if bias is not None:
        logits += bias
    return logits.div_(softcap).tanh_().mul_(softcap) if softcap else logits


def _exact_dtype(tensor: Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def _operand(tensor: Tensor, rounded: bool, dtype: torch.dtype | None = None) -> Tensor:
    """A factor of the products, cast once: bfloat16 on a GPU if `rounded`, else `dtype` or that of the results."""
    return tensor.bfloat16() if rounded and tensor.is_cuda else tensor.to(dtype or _exact_dtype(tensor))


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
    """[A, C] in the results' dtype, of operands [A, B] and [B, C]."""
    return torch.mm(left, right, out_dtype=torch.float32) if rounded and left.is_cuda else torch.mm(left, right)


def _add_product(total: Tensor, left: Tensor, right: Tensor, rounded: bool) -> Tensor:
    if rounded and left.is_cuda:
        return torch.addmm(total, left, right, out_dtype=torch.float32)
    return total.addmm_(left, right)
