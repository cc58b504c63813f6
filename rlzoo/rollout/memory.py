"""How large a model and its keys and values are, by its configuration alone."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rlzoo.config import ModelConfig, RolloutConfig
from rlzoo.files import read_json
from rlzoo.model.pretrained import POLICY, as_reference, as_teacher, errors_naming, locate
from rlzoo.rollout import engine_traits

QK_NORM = ("qwen3", "qwen3_moe", "gemma3_text")
"""Model types that normalise queries and keys of each head."""
GIB = 2**30
ROOM = 1.25
"""Keys and values that are held for each that is there: a cache that grows is given a quarter more than it needs."""
SPARE = 256
"""Tokens: a cache is cut into blocks; the last need not be full, and one is never used."""


@dataclass(frozen=True)
class Shape:
    """A decoder of the Llama family: widths, counts, and whether the head is the embedding."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    tied: bool
    qk_norm: bool = False
    windowed: int = 0
    """Layers that do not attend to the whole text."""

    @property
    def cached_numbers(self) -> int:
        """Keys and values that are kept for each token of a text that is continued."""
        return 2 * (self.layers - self.windowed) * self.kv_heads * self.head_size

    @property
    def linear(self) -> int:
        """Weights of the linear layers of all layers."""
        attention = 2 * self.hidden * self.head_size * (self.heads + self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def parameters(self) -> int:
        """All weights but the few of norms and biases."""
        return self.linear + self.vocabulary * self.hidden * (1 if self.tied else 2)

    @property
    def largest(self) -> int:
        """Numbers of the largest weight: the embedding, or a projection."""
        return self.hidden * max(self.vocabulary, self.intermediate, self.heads * self.head_size)

    def adapters(self, rank: int) -> int:
        """Weights of adapters of all linear layers."""
        heads = self.head_size * (self.heads + self.kv_heads)
        return self.layers * rank * (4 * self.hidden + 2 * heads + 3 * (self.hidden + self.intermediate))


KNOWN = {
    "Qwen/Qwen2.5-0.5B-Instruct": Shape(896, 4864, 24, 14, 2, 64, 151_936, tied=True),
    "Qwen/Qwen3-1.7B-Base": Shape(2048, 6144, 28, 16, 8, 128, 151_936, tied=True, qk_norm=True),
    "Qwen/Qwen2.5-3B-Instruct": Shape(2048, 11_008, 36, 16, 2, 128, 151_936, tied=True),
    "Qwen/Qwen2.5-Math-7B": Shape(3584, 18_944, 28, 28, 4, 128, 152_064, tied=False),
    "Qwen/Qwen2.5-7B": Shape(3584, 18_944, 28, 28, 4, 128, 152_064, tied=False),
    "Qwen/Qwen3-8B-Base": Shape(4096, 12_288, 36, 32, 8, 128, 151_936, tied=False, qk_norm=True),
    "Qwen/Qwen3-14B-Base": Shape(5120, 17_408, 40, 40, 8, 128, 151_936, tied=False, qk_norm=True),
    "Qwen/Qwen3-32B": Shape(5120, 25_600, 64, 64, 8, 128, 151_936, tied=False, qk_norm=True),
    "Qwen/Qwen2.5-32B": Shape(5120, 27_648, 64, 40, 8, 128, 152_064, tied=False),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": Shape(1536, 8960, 28, 12, 2, 128, 151_936, tied=False),
}
"""The models of `configs/`, as their config.json on the hub has them, so that these need no network."""


_HEADS = ("num_attention_heads", "num_key_value_heads")
_SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size", *_HEADS)
PLAIN = {"qwen2": _SIZES, "qwen3": (*_SIZES, "head_dim")}
"""Types of models whose shape these entries of config.json give, so that transformers need not be imported."""


def teacher_shape(config: ModelConfig, shape: Shape) -> Shape | None:
    """The shape of `model.teacher`, `shape` being the policy's; None if it has no weights of its own."""
    other = as_teacher(config)
    if other is None:
        return None if config.teacher == POLICY else shape
    with errors_naming("model.teacher"):
        return shape_of(other)


def reference_shape(config: ModelConfig) -> Shape | None:
    """The shape of `model.reference`; None if it is the policy's."""
    other = as_reference(config)
    with errors_naming("model.reference"):
        return None if other is None else shape_of(other)


def shape_of(config: ModelConfig) -> Shape:
    """The shape of `model.name`. Raises UserError if its configuration cannot be had."""
    if config.name in KNOWN:
        return KNOWN[config.name]
    text: Any = _plain(config) or _described(config)
    heads = getattr(text, "num_attention_heads", None) or 0
    return Shape(
        hidden=text.hidden_size,
        intermediate=getattr(text, "intermediate_size", None) or 4 * text.hidden_size,
        layers=text.num_hidden_layers,
        heads=heads,
        kv_heads=getattr(text, "num_key_value_heads", None) or heads,
        head_size=getattr(text, "head_dim", None) or (text.hidden_size // heads if heads else 0),
        vocabulary=text.vocab_size,
        tied=bool(text.tie_word_embeddings),
        qk_norm=text.model_type in QK_NORM,
        windowed=sum(kind != "full_attention" for kind in getattr(text, "layer_types", None) or ()),
    )


def _plain(config: ModelConfig) -> SimpleNamespace | None:
    """What config.json of a folder says by itself of a model whose defaults change no size; None for any other."""
    file = Path(locate(config).path) / "config.json"
    if not file.is_file():
        return None
    try:
        found = read_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or found.get("use_sliding_window") or "auto_map" in found:
        return None
    numbers = [found.get(name) for name in PLAIN.get(str(found.get("model_type")), ("",))]
    is_whole = all(isinstance(number, int) and number > 0 for number in numbers)
    is_whole &= isinstance(found.get("tie_word_embeddings"), bool) and isinstance(found.get("layer_types", []), list)
    return SimpleNamespace(**found) if is_whole else None


def _described(config: ModelConfig) -> Any:
    from rlzoo.model.tokenizer import model_config

    return model_config(config).get_text_config()


# ---- keys and values -------------------------------------------------------------------------------------------------


def bytes_per_token(shape: Shape, model: ModelConfig) -> int:
    """Bytes of the keys and values of one token."""
    return shape.cached_numbers * (2 if model.precision == "bfloat16" else 4)


def least_gib(shape: Shape, model: ModelConfig, length: int) -> float:
    """GiB, in quarters, with which a response can be sampled that has `length` tokens with its prompt.

    Layers with a window, which an engine charges with all that it reads at once, count as if they saw everything.
    """
    return math.ceil(4 * bytes_per_token(replace(shape, windowed=0), model) * (length + SPARE) / GIB) / 4


def set_aside_gib(rollout: RolloutConfig, usual: float, model: ModelConfig, shape: Shape, length: int) -> float:
    """GiB for keys and values of an engine that sets `usual` aside: `rollout.kv_cache_gib`, or else what is needed.

    `length` are the tokens of the longest response with its prompt.
    """
    return rollout.kv_cache_gib or max(usual, least_gib(shape, model, length))


def cache_bytes(rollout: RolloutConfig, model: ModelConfig, shape: Shape, rows: int, length: int) -> float:
    """Bytes for `rows` responses side by side, each of `length` tokens with its prompt, or what is set aside."""
    engine = engine_traits(rollout.engine)
    if engine.apart:
        return 0.0
    if engine.kv_cache_gib is not None:
        return set_aside_gib(rollout, engine.kv_cache_gib, model, shape, length) * GIB
    return ROOM * bytes_per_token(shape, model) * length * rows
