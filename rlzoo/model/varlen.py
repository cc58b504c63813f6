"""Attention without masks: responses one behind the other in one row, told apart by where each of them begins.

Importing this makes `varlen` an attention implementation of transformers. Rows that are not packed, such as those that
are sampled, are SDPA's, with its masks.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from rlzoo.model.layout import Layout

VARLEN = "varlen"
KERNEL = (torch.bfloat16, torch.float16)
"""What torch's kernel for such rows calculates in, on CUDA alone."""
_CHANGES = ("softcap", "s_aux", "position_bias")
"""What some models give their attention besides, which would be lost: soft caps, sinks, biases."""


def packs(attention: str) -> bool:
    """Whether an attention implementation takes rows of several responses without masks."""
    return attention == VARLEN or attention.startswith("flash_attention")


def packed_options(layout: Layout, attention: str, kinds: set[str]) -> dict[str, Any]:
    """Arguments of the layers for a packed row, as transformers documents them for its flash attention.

    `varlen` gets a mask without elements, so that transformers makes none; a layer that used it would fail. Flash
    attention takes no mask. Unless each of the `kinds` of layers gets None, transformers searches the positions for
    packed rows, and waits for the device.
    """
    assert layout.bounds is not None
    none = {kind: None for kind in kinds} if "sliding_attention" in kinds else None
    return {
        "use_cache": False,
        "position_ids": layout.position,
        "attention_mask": layout.inputs.new_zeros(1, 1, 0, 0) if attention == VARLEN else none,
        "cu_seq_lens_q": layout.bounds,
        "cu_seq_lens_k": layout.bounds,
        "max_length_q": max(layout.segments),
        "max_length_k": max(layout.segments),
        "segments": layout.segments,
    }


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    cu_seq_lens_q: Tensor | None = None,
    max_length_q: int = 0,
    segments: Sequence[int] = (),
    **options: Any,
) -> tuple[Tensor, None]:
    """What a layer sees of [R, heads, L, size], as [R, L, heads, size]; of a packed row every segment sees itself.

    On CUDA and in half precision that is one call of torch's kernel, which leaves the scores out of memory; elsewhere
    SDPA, segment by segment. Raises ValueError for a layer that is no plain attention.
    """
    for name in _CHANGES:
        if options.get(name) is not None:
            raise ValueError(f"its layers have {name}, which varlen has not")
    if cu_seq_lens_q is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
    if not torch.compiler.is_compiling():  # Policy has tried every layer; its number would compile each by itself
        _check_window(module, sliding_window)
    device = query.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else query.dtype
    if query.is_cuda and dtype in KERNEL:
        q, k, v = (tensor[0].transpose(0, 1).to(dtype) for tensor in (query, key, value))
        return _by_kernel(q, k, v, cu_seq_lens_q, max_length_q, scaling, sliding_window)[None], None
    parts = []
    for q, k, v in zip(*(tensor.split(list(segments), dim=2) for tensor in (query, key, value)), strict=True):
        parts.append(sdpa_attention_forward(module, q, k, v, _band(q, sliding_window), scaling=scaling)[0])
    return torch.cat(parts, 1), None


def _by_kernel(
    query: Tensor, key: Tensor, value: Tensor, bounds: Tensor, longest: int, scaling: float | None, window: int | None
) -> Tensor:
    """[L, heads, size] of [L, heads, size]; keys and values may have fewer heads."""
    from torch.nn.attention import varlen

    seen = (-1 if window is None else window - 1, 0)  # positions before a token that it sees, and none behind it
    options: dict[str, Any] = {"scale": scaling, "window_size": seen}
    if "enable_gqa" in inspect.signature(varlen.varlen_attn).parameters:
        options["enable_gqa"] = True
    else:  # torch 2.11
        queries_per_key = query.shape[1] // key.shape[1]
        key, value = (tensor.repeat_interleave(queries_per_key, dim=1) for tensor in (key, value))
    out: Any = varlen.varlen_attn(query, key, value, bounds, bounds, longest, longest, **options)
    return out


def _band(query: Tensor, window: int | None) -> Tensor | None:
    """[L, L] bool: which positions see which within a window; None where each sees all before it."""
    length = query.shape[2]
    if window is None or length <= window:
        return None
    sees = torch.ones(length, length, dtype=torch.bool, device=query.device)
    return sees.tril().triu(1 - window)


def _check_window(module: Any, told: int | None) -> None:
    """Refuses a layer whose configuration asks for masks that its attention does not receive.

    Raises ValueError.
    """
    config = module.config
    kinds = getattr(config, "layer_types", None)
    kind = kinds[module.layer_idx] if kinds else "any"
    if kind not in ("any", "full_attention", "sliding_attention"):
        raise ValueError(f"it has layers of {kind}")
    window = None if kind == "full_attention" else getattr(config, "sliding_window", None)
    if told != window:
        raise ValueError(f"a layer attends within {told} positions where its configuration says {window}")


AttentionInterface.register(VARLEN, attend)
AttentionMaskInterface.register(VARLEN, sdpa_mask)
