"""What `rlzoo fit` counts of a backward pass is what its tensors take at most, on one process and of a share."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import AutoModelForCausalLM, LlamaConfig

from objectives import parse
from rlzoo.config import load_config
from rlzoo.model.layout import Responses
from rlzoo.model.policy import Policy
from rlzoo.model.sharding import shard
from rlzoo.rollout.memory import Shape
from rlzoo.training.fit import copy_bytes, gathered_bytes, training_moments
from tests.model.tiny_models import tiny_tokenizer
from tests.simulated_device.updates import counting

PROCESSES = 4


@pytest.fixture
def one_of_four() -> Iterator[None]:
    """A process group of which the other processes are pretended: nothing is sent, all memory is taken."""
    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=PROCESSES)
    yield
    distributed.destroy_process_group()


def policy_of(shape: Shape, checkpointing: bool) -> Policy:
    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_size,
        tie_word_embeddings=shape.tied,
    )
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").float()
    return Policy(model, tiny_tokenizer(), checkpointing, share_prompts=False)


def taken(policy: Policy, rows: int, length: int, bfloat16: bool, with_entropy: bool) -> int:
    """Bytes of all tensors that a second forward and backward pass has at once, weights and gradients left out."""
    tokens = torch.randint(policy.model.config.vocab_size, (rows, length))
    batch = Responses([[1]] * rows, tokens, torch.full((rows,), length), torch.ones_like(tokens, dtype=torch.bool))

    def pass_through() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            stats = policy(batch, 1.0, with_entropy)
        (stats.logp if stats.entropy is None else stats.logp + stats.entropy).sum().backward()

    pass_through()
    tensors: list[Any] = [weight for weight in policy.parameters()]
    held = sum(2 * getattr(weight, "_local_tensor", weight).nbytes for weight in tensors)
    tracker = MemTracker()
    tracker.track_external(policy)
    with tracker:
        pass_through()
    return int(tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]) - held


def counted(shape: Shape, rows: int, length: int, share: int, *words: str) -> float:
    """Bytes that are predicted for it."""
    longest = [f"rollout.max_response_tokens={length}", "rollout.max_prompt_tokens=1"]
    config = load_config([*longest, *words])
    gathered = gathered_bytes(shape) if share > 1 else 0.0
    moments = training_moments(config, shape, parse(config.objective), share, rows * length, 0)
    return gathered + max(sum(parts.values()) for parts in moments)


WIDE = Shape(64, 640, 3, 4, 2, 24, 64, tied=True)
"""Its layers' intermediate states take the most."""
MANY_WORDS = Shape(64, 160, 3, 4, 2, 24, 8192, tied=True)
"""Its logits and its embedding take the most."""
UNTIED = Shape(64, 160, 3, 4, 2, 24, 8192, tied=False)


@pytest.mark.parametrize(
    ("checkpointing", "bfloat16", "with_entropy"),
    [(False, False, False), (True, False, True), (False, True, True), (True, True, False)],
)
@pytest.mark.parametrize("shape", [WIDE, MANY_WORDS])
def test_a_backward_pass_takes_what_is_counted(
    shape: Shape, checkpointing: bool, bfloat16: bool, with_entropy: bool
) -> None:
    precision = "bfloat16" if bfloat16 else "float32"
    words = [f"model.gradient_checkpointing={str(checkpointing).lower()}", f"model.precision={precision}"]
    words += ["objective=grpo+entropy_bonus"] if with_entropy else []
    measured = taken(policy_of(shape, checkpointing), 4, 64, bfloat16, with_entropy)
    assert abs(counted(shape, 4, 64, 1, *words) / measured - 1) < 0.1


@pytest.mark.parametrize("shape", [MANY_WORDS, UNTIED])
def test_gradients_of_an_embedding_are_counted_where_they_take_the_most(shape: Shape) -> None:
    assert abs(counted(shape, 1, 16, 1) / taken(policy_of(shape, False), 1, 16, False, False) - 1) < 0.1


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("shape", [WIDE, UNTIED])
@pytest.mark.parametrize(("rows", "length"), [(1, 16), (4, 64)])
def test_a_share_takes_what_is_counted_of_whole_weights_and_gradients(
    shape: Shape, checkpointing: bool, rows: int, length: int, one_of_four: None
) -> None:
    word = f"model.gradient_checkpointing={str(checkpointing).lower()}"
    measured = taken(shard(policy_of(shape, checkpointing)), rows, length, False, False)
    assert abs(counted(shape, rows, length, PROCESSES, word) / measured - 1) < 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [MANY_WORDS, UNTIED])
@pytest.mark.parametrize("share", [1, PROCESSES])
def test_a_copy_that_samples_is_counted_with_its_head(
    shape: Shape, dtype: torch.dtype, share: int, one_of_four: None
) -> None:
    policy = policy_of(shape, checkpointing=False)
    copied = (shard(policy) if share > 1 else policy).sampling_copy(dtype)
    shared = {weight.data_ptr() for weight in policy.parameters()} if share == 1 else set()
    measured = sum(weight.nbytes for weight in copied.parameters() if weight.data_ptr() not in shared)
    assert copy_bytes(shape, dtype == torch.bfloat16, share, by_policy=True) == pytest.approx(measured, rel=0.02)


def test_a_sharded_reference_has_but_its_share_once_it_has_scored(one_of_four: None, tiny_model: Path) -> None:
    trainer, (collected, *_) = counting(tiny_model, "objective=grpo+kl")
    assert trainer.reference is not None
    trainer.reference = shard(trainer.reference)
    trainer.scored(collected, frozenset({"logp_ref"}))
    assert all(isinstance(weight, DTensor) for weight in trainer.reference.parameters())
