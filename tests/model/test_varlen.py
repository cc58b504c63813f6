"""One row without masks and padding: the values and gradients of each response behind a prompt of its own."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import AttentionInterface, AutoModelForCausalLM, GptOssConfig, MambaConfig

from rlzoo.config.sections import LoraConfig, ModelConfig, RolloutConfig
from rlzoo.errors import UserError
from rlzoo.model import varlen
from rlzoo.model.layout import Responses, filled
from rlzoo.model.lora import adapters, add_adapters
from rlzoo.model.policy import Policy
from rlzoo.model.varlen import VARLEN
from rlzoo.rollout.base import Sampling
from rlzoo.rollout.transformers_engine import TransformersEngine
from tests.model.tiny_models import COMMON, VOCABULARY, tiny_policy, tiny_tokenizer
from tests.training.recording import rollouts

LAW = 1e-12
"""How far values and gradients may be from those of padded rows, as a share of the largest."""
TIED = (("qwen3", True), ("qwen3", False), ("llama", True), ("llama", False), ("qwen2", False), ("mistral", False))


def batch() -> Responses:
    """Ragged responses, of one token and of none too, some with tokens in their middle that are context."""
    sampled, _ = rollouts(VOCABULARY)
    lengths = sampled.lengths.clone()
    lengths[5] = 0
    present = torch.arange(sampled.tokens.shape[1]) < lengths[:, None]
    found = Responses(sampled.prompt_tokens(), sampled.tokens, lengths, sampled.mask & present)
    assert {0, 1} < set(lengths.tolist()) and (found.mask.sum(1) < lengths).any()
    return found


def sizes(responses: Responses) -> list[int]:
    return [
        len(prompt) + max(0, n - 1) for prompt, n in zip(responses.prompts, responses.lengths.tolist(), strict=True)
    ]


def some(responses: Responses, rows: Sequence[int]) -> Responses:
    prompts = [responses.prompts[row] for row in rows]
    index = torch.tensor(rows)
    return Responses(prompts, responses.tokens[index], responses.lengths[index], responses.mask[index])


def outcome(policy: Policy, parts: Sequence[Sequence[int]]) -> list[Tensor]:
    """Log-probs, entropies and all gradients of something that weighs each of them differently, part by part."""
    responses, device = batch(), policy.model.device
    weights = torch.linspace(-1, 1, responses.mask.numel(), dtype=torch.float64).view(responses.mask.shape)
    logp, entropy = (torch.zeros(responses.mask.shape, dtype=torch.float64) for _ in range(2))
    policy.zero_grad()
    for rows in parts:
        index = torch.tensor(rows)
        stats = policy(some(responses, rows), 0.7, with_entropy=True)
        assert stats.entropy is not None
        of_logp, of_entropy = (it[index].to(device) for it in (weights, weights.flip(0)))
        (of_logp * stats.logp + of_entropy * stats.entropy).sum().backward()
        logp[index], entropy[index] = (it.detach().cpu().double() for it in (stats.logp, stats.entropy))
    return [logp, entropy, *(p.grad.cpu().clone() for p in policy.parameters() if p.grad is not None)]


def farthest(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """The largest difference, as a share of the largest value of its tensor."""
    return max(float((one - other).abs().max() / other.abs().max()) for one, other in zip(found, expected, strict=True))


def both(name: str, **changes: Any) -> tuple[Policy, Policy]:
    """The same model in float64, with packed rows and with padded ones."""
    packed, padded = (tiny_policy(name, attention=attention, **changes).double() for attention in (VARLEN, "sdpa"))
    padded.longest_tree = 0
    assert packed.one_row and not padded.one_row
    return packed, padded


WHOLE = [list(range(24))]


# ---- values and gradients --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "tied"), TIED)
def test_values_and_gradients_are_those_of_padded_rows(name: str, tied: bool) -> None:
    packed, padded = both(name, tie_word_embeddings=tied)
    assert (packed.model.lm_head.weight is packed.model.model.embed_tokens.weight) is tied
    expected = outcome(padded, WHOLE)
    assert farthest(outcome(packed, WHOLE), expected) < LAW
    assert len(expected) == 2 + len(list(padded.parameters())) and all(it.abs().max() > 0 for it in expected)


@pytest.mark.parametrize("name", ["qwen3", "mistral"])
def test_neither_the_order_of_responses_nor_how_they_are_packed_matters(name: str) -> None:
    packed, padded = both(name)
    expected, responses = outcome(padded, WHOLE), batch()
    mixed = torch.randperm(24, generator=torch.Generator().manual_seed(0)).tolist()
    assert farthest(outcome(packed, [mixed]), expected) < LAW
    for budget in (1, 20, 50, 120):
        parts = packed.micro_batches(responses.prompts, responses.lengths.tolist(), budget)
        assert farthest(outcome(packed, [part.tolist() for part in parts]), expected) < LAW


def test_windows_are_shorter_than_the_rows_that_are_compared() -> None:
    windows = {name: tiny_policy(name).model.config.sliding_window for name in ("qwen2", "mistral")}
    assert windows == {"qwen2": 4, "mistral": 5} and min(windows.values()) + 3 < max(sizes(batch()))


def test_checkpointed_layers_and_adapters_have_the_gradients_of_padded_rows() -> None:
    policies = [tiny_policy("mistral", gradient_checkpointing=True, attention=it).double() for it in (VARLEN, "sdpa")]
    for policy in policies:
        policy.longest_tree = 0
    assert farthest(*(outcome(policy, WHOLE) for policy in policies)) < LAW
    for policy in policies:
        add_adapters(policy.model, LoraConfig(rank=2))
        generator = torch.Generator().manual_seed(0)
        for weight in adapters(policy).values():
            weight.copy_(0.3 * torch.randn(weight.shape, generator=generator))
        policy.double()
    found, expected = (outcome(policy, WHOLE) for policy in policies)
    assert len(found) == 2 + len(adapters(policies[0])) and farthest(found, expected) < LAW


def test_sampling_is_that_of_sdpa() -> None:
    policies = [tiny_policy("mistral", attention=attention) for attention in (VARLEN, "sdpa")]
    one, other = (
        TransformersEngine(it, it.tokenizer, RolloutConfig(), ModelConfig()).generate(
            [[1, 2, 3, 4, 5, 6, 7], [3]], 3, Sampling(9, 1.0), seed=0
        )
        for it in policies
    )
    assert torch.equal(one.tokens, other.tokens) and torch.equal(one.logp, other.logp)


# ---- the row ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 60), max_size=60), st.integers(1, 200))
@settings(deadline=None)
def test_parts_are_within_the_budget_and_no_two_of_them_fit_into_one(items: list[int], budget: int) -> None:
    parts = filled(items, budget)
    assert sorted(item for part in parts for item in part) == list(range(len(items)))
    taken = sorted(sum(items[item] for item in part) for part in parts)
    assert all(len(part) == 1 or sum(items[item] for item in part) <= budget for part in parts)
    assert len(taken) < 2 or taken[0] + taken[1] > budget


def test_a_micro_batch_holds_its_tokens_and_no_others() -> None:
    policy, responses = tiny_policy("qwen3", attention=VARLEN), batch()
    parts = policy.micro_batches(responses.prompts, responses.lengths.tolist(), 40)
    found = [policy(some(responses, rows.tolist()), 1.0).positions for rows in parts]
    assert found == [sum(sizes(some(responses, rows.tolist()))) for rows in parts]
    assert max(found) <= 40 and len(parts) == -(-sum(sizes(responses)) // 40)


# ---- flash attention of transformers ---------------------------------------------------------------------------------


def flash(module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **options: Any) -> Any:
    """Stands in for transformers' flash attention, by what it documents of rows without padding."""
    bounds = options["cu_seq_lens_q"]
    assert attention_mask is None and bounds.dtype == torch.int32 and options["cu_seq_lens_k"] is bounds
    assert options["max_length_q"] == options["max_length_k"] == bounds.diff().max()
    options["segments"] = bounds.diff().tolist()
    return varlen.attend(module, query, key, value, None, **options)


def flash_policy(name: str, monkeypatch: pytest.MonkeyPatch) -> Policy:
    """A policy that believes in flash attention, which is not installed here."""
    monkeypatch.setitem(AttentionInterface._global_mapping, "flash_attention_2", flash)
    model = tiny_policy(name).model
    model.config._attn_implementation = "flash_attention_2"
    return Policy(model, tiny_tokenizer())


@pytest.mark.parametrize("name", ["qwen3", "qwen2", "mistral"])
def test_flash_attention_is_told_of_the_same_row(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, padded = both(name)
    policy = flash_policy(name, monkeypatch).double()
    assert policy.one_row and policy.model.config._attn_implementation == "flash_attention_2"
    assert farthest(outcome(policy, WHOLE), outcome(padded, WHOLE)) < LAW


def test_where_flash_attention_cannot_have_one_row_responses_are_padded_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.warns(UserWarning, match="behind a prompt of its own: its layers have softcap"):
        policy = flash_policy("gemma2", monkeypatch)
    assert not policy.one_row and not policy.longest_tree


# ---- refusals --------------------------------------------------------------------------------------------------------

OTHERS = {
    "sinks": (GptOssConfig(**COMMON, num_local_experts=2, num_experts_per_tok=1), "its layers have s_aux"),
    "no attention": (MambaConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=1), ""),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_model_whose_layers_are_no_plain_attention_is_refused(kind: str) -> None:
    config, reason = OTHERS[kind]
    model = AutoModelForCausalLM.from_config(config, attn_implementation=VARLEN)
    with pytest.raises(UserError, match=rf"^model\.attention=varlen: {reason}.*; set model\.attention=sdpa, or eager$"):
        Policy(model.float(), tiny_tokenizer())


def test_soft_caps_are_refused() -> None:
    with pytest.raises(UserError, match=r"^model\.attention=varlen: its layers have softcap"):
        tiny_policy("gemma2", attention=VARLEN)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sliding_window": 3}, "within None positions where its configuration says 3"),
        ({"layer_types": ["chunked_attention"] * 2}, "it has layers of chunked_attention"),
    ],
)
def test_masks_of_which_attention_is_not_told_are_refused(changes: dict[str, Any], reason: str) -> None:
    policy = tiny_policy("llama", attention=VARLEN)
    for name, value in changes.items():
        setattr(policy.model.config, name, value)
    with pytest.raises(UserError, match=reason):
        Policy(policy.model, policy.tokenizer)
