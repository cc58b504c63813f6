"""What holds for every engine, held by the real vLLM in float32 on the shipped model."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from rlzoo.config import ModelConfig, RolloutConfig
from rlzoo.model.policy import Policy, load_policy
from rlzoo.model.tokenizer import load_tokenizer
from rlzoo.rollout.base import Rollouts, Sampling
from rlzoo.rollout.transformers_engine import TransformersEngine
from rlzoo.rollout.vllm_engine import VllmEngine

MODEL = ModelConfig(name="embedded:arithmetic")
QUESTIONS = ["3+4=", "51-8=", "9+9-7=", "60-12+5=", "12+34-5="]
SAMPLED = Sampling(max_response_tokens=12)
GREEDY = Sampling(max_response_tokens=12, temperature=0.0)


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_policy(MODEL, load_tokenizer(MODEL))


@pytest.fixture(scope="module")
def engine(policy: Policy) -> Iterator[VllmEngine]:
    made = VllmEngine(policy, policy.tokenizer, RolloutConfig(max_prompt_tokens=32, kv_cache_gib=0.25), MODEL)
    yield made
    made.close()


@pytest.fixture(scope="module")
def prompts(policy: Policy) -> list[list[int]]:
    return [policy.tokenizer.encode(question) for question in QUESTIONS]


def same(left: Rollouts, right: Rollouts) -> bool:
    names = ("tokens", "mask", "prompt", "truncated", "logp", "entropy")
    return all(torch.equal(getattr(left, name), getattr(right, name)) for name in names)


@pytest.mark.parametrize("temperature", [1.0, 0.7, 1.5])
def test_log_probs_are_the_policys_own_on_the_same_tokens(
    policy: Policy, engine: VllmEngine, prompts: list[list[int]], temperature: float
) -> None:
    rollouts = engine.generate(prompts, 20, Sampling(14, temperature), seed=3)
    assert len(rollouts.lengths.unique()) > 3, "the responses should differ in length for this test to say anything"
    with torch.no_grad():
        stats = policy(rollouts.responses(), temperature)
    torch.testing.assert_close(rollouts.logp, stats.logp, rtol=0, atol=1e-4)
    assert rollouts.logp.dtype == torch.float32
    assert torch.equal(rollouts.entropy, rollouts.logp.neg().where(rollouts.mask, 0.0))


def test_a_nucleus_cuts_unlikely_tokens_and_reports_the_renormalised_log_prob(
    policy: Policy, engine: VllmEngine, prompts: list[list[int]]
) -> None:
    rollouts = engine.generate(prompts, 20, Sampling(12, temperature=1.3, top_p=0.5), seed=0)
    with torch.no_grad():
        stats = policy(rollouts.responses(), 1.3)
    kept = (stats.logp - rollouts.logp).exp()[rollouts.mask]
    assert (kept > 0.4999).all() and (kept < 1.0001).all() and kept.min() < 0.9


@pytest.mark.parametrize(
    "cut", [{"top_k": 3}, {"min_p": 0.2}, {"min_p": 0.05, "top_k": 4, "top_p": 0.7}, {"top_k": 2, "top_p": 0.95}]
)
def test_top_k_and_min_p_leave_the_same_tokens_as_in_our_own_engine(
    policy: Policy, engine: VllmEngine, cut: dict[str, Any]
) -> None:
    """The log-probs of all tokens that either engine draws first are the same."""
    prompt, sampling = policy.tokenizer.encode("5+"), Sampling(1, temperature=2.0, **cut)
    found = []
    for each in (engine, TransformersEngine(policy, policy.tokenizer)):
        rollouts = each.generate([prompt], 3000, sampling, seed=1)
        found.append(dict(zip(rollouts.tokens[:, 0].tolist(), rollouts.logp[:, 0].tolist(), strict=True)))
    assert found[0].keys() == found[1].keys() and 1 < len(found[0]) < 14
    assert found[0] == pytest.approx(found[1], abs=1e-4)


def test_tokens_are_as_frequent_as_they_are_probable(policy: Policy, engine: VllmEngine) -> None:
    """No top-k, penalty or other setting of the model's own comes between."""
    prompt, rows = policy.tokenizer.encode("5+"), 6000
    tokens = engine.generate([prompt], rows, Sampling(1, temperature=2.0), seed=1).tokens[:, 0]
    with torch.no_grad():
        exact = (policy.next_logits(torch.tensor([prompt]))[0] / 2.0).softmax(-1).double()
    counts, expected = tokens.bincount(minlength=len(exact)), exact / exact.sum() * rows
    assert (expected > 4).all(), "the temperature should make every token likely enough for the test"
    assert chisquare(counts.tolist(), expected.tolist()).pvalue > 1e-3


def test_the_same_seed_gives_the_same_responses_and_another_seed_others(
    engine: VllmEngine, prompts: list[list[int]]
) -> None:
    torch.manual_seed(1)
    first = engine.generate(prompts, 8, SAMPLED, seed=7)
    engine.generate(prompts[::-1], 3, SAMPLED, seed=5)
    torch.manual_seed(2)
    assert same(first, engine.generate(prompts, 8, SAMPLED, seed=7))
    assert not torch.equal(first.tokens, engine.generate(prompts, 8, SAMPLED, seed=2**40 + 7).tokens)


def test_sampling_leaves_the_callers_generators_alone(engine: VllmEngine, prompts: list[list[int]]) -> None:
    torch.manual_seed(1)
    np.random.seed(1)
    expected = torch.rand(3).tolist(), np.random.random(3).tolist()
    torch.manual_seed(1)
    np.random.seed(1)
    engine.generate(prompts, 2, SAMPLED, seed=7)
    assert (torch.rand(3).tolist(), np.random.random(3).tolist()) == expected


def test_responses_to_one_prompt_differ_from_each_other(engine: VllmEngine, prompts: list[list[int]]) -> None:
    rollouts = engine.generate(prompts, 16, Sampling(12, temperature=2.0), seed=7)
    for group in rollouts.tokens.split(16):
        assert len(set(map(tuple, group.tolist()))) > 8


def test_a_response_ends_with_its_stop_token_or_is_truncated(engine: VllmEngine, prompts: list[list[int]]) -> None:
    stops = torch.tensor(engine.stop_tokens)
    rollouts = engine.generate(prompts, 40, Sampling(8), seed=0)
    assert rollouts.truncated.any() and not rollouts.truncated.all()
    ended_last = 0
    for row, length in enumerate(rollouts.lengths.tolist()):
        is_stop = torch.isin(rollouts.tokens[row], stops)
        assert rollouts.mask[row, :length].all() and not rollouts.mask[row, length:].any()
        assert not is_stop[: length - 1].any()
        assert bool(is_stop[length - 1]) is not bool(rollouts.truncated[row])
        assert length == 8 or not rollouts.truncated[row]
        assert not rollouts.tokens[row, length:].any() and not rollouts.logp[row, length:].any()
        ended_last += length == 8 and not rollouts.truncated[row]
    assert ended_last, "no response ended at the last place, where an end is easily taken for a truncation"


def test_responses_lie_beside_their_prompt(policy: Policy, engine: VllmEngine, prompts: list[list[int]]) -> None:
    """Greedily, with several responses to each prompt, they are those that transformers gives to the prompt alone."""
    together = engine.generate(prompts, 3, GREEDY, seed=0)
    assert together.prompt.tolist() == [number for number in range(len(prompts)) for _ in range(3)]
    assert together.prompt_tokens()[3] == prompts[1]
    for number, prompt in enumerate(prompts):
        alone = TransformersEngine(policy, policy.tokenizer).generate([prompt], 1, GREEDY, seed=0)
        rows = slice(3 * number, 3 * number + 3)
        length = int(alone.lengths)
        assert together.tokens[rows, :length].tolist() == alone.tokens.tolist() * 3
        assert together.lengths[rows].tolist() == [length] * 3
        torch.testing.assert_close(together.logp[rows, :length], alone.logp.expand(3, -1), rtol=0, atol=1e-4)


@pytest.fixture
def noise(policy: Policy) -> Policy:
    """The policy's architecture with weights that say nothing."""
    other = policy.frozen_copy()
    torch.manual_seed(0)
    for weight in other.parameters():
        weight.normal_(std=0.2)
    return other


def test_sync_takes_over_every_weight(
    policy: Policy, engine: VllmEngine, noise: Policy, prompts: list[list[int]]
) -> None:
    before = engine.generate(prompts, 4, GREEDY, seed=0)
    engine.sync(noise, version=1)
    garbage = engine.generate(prompts, 4, GREEDY, seed=0)
    engine.sync(policy, version=1)
    assert same(engine.generate(prompts, 4, GREEDY, seed=0), before)
    assert garbage.tokens.shape != before.tokens.shape or not torch.equal(garbage.tokens, before.tokens)
    with torch.no_grad():
        stats = noise(garbage.responses(), 1.0)
    torch.testing.assert_close(garbage.logp, stats.logp, rtol=0, atol=1e-3)


def test_a_sleeping_engine_takes_the_weights_before_its_cache_when_it_wakes(
    policy: Policy, engine: VllmEngine, noise: Policy, prompts: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CPU has nothing to free: the order of the calls is vLLM's own, what they free is not seen here."""
    calls: list[Any] = []

    def record(method: str) -> None:
        real = getattr(engine.llm, method)

        def recorded(*arguments: Any, **options: Any) -> Any:
            calls.append((method, options.get("tags", options.get("level"))))
            return real(*arguments, **options)

        monkeypatch.setattr(engine.llm, method, recorded)

    for method in ("wake_up", "collective_rpc", "generate", "sleep"):
        record(method)
    expected = engine.generate(prompts, 4, SAMPLED, seed=0)
    monkeypatch.setattr(engine, "sleeps", True)
    assert same(engine.generate(prompts, 4, SAMPLED, seed=0), expected)
    engine.sync(noise, version=1)
    engine.sync(policy, version=1)
    calls.clear()
    assert same(engine.generate(prompts, 4, SAMPLED, seed=0), expected)
    assert calls == [
        ("wake_up", ["weights"]),
        ("collective_rpc", None),
        ("wake_up", ["kv_cache"]),
        ("generate", None),
        ("sleep", 2),
    ]
    monkeypatch.setattr(engine, "sleeps", False)
    engine.generate(prompts, 1, SAMPLED, seed=0)
