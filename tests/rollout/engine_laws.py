"""The laws for engines: a suite for any, in float32 on the shipped model. A subclass says which engine.

class TestMyEngine(EngineLaws):
engine_name = "my_module:MyEngine"
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from rlzoo.config import load_config
from rlzoo.model.policy import Policy, load_policy
from rlzoo.model.tokenizer import load_tokenizer
from rlzoo.rollout import check_engine, load_engine
from rlzoo.rollout.base import RolloutEngine, Rollouts, Sampling, draw

QUESTIONS = ["3+4=", "51+8=", "9+97=", "60+125=", "12+3405="]
SAMPLED = Sampling(max_response_tokens=12)
GREEDY = Sampling(max_response_tokens=12, temperature=0.0)


def same(left: Rollouts, right: Rollouts) -> bool:
    names = ("tokens", "mask", "prompt", "truncated", "logp", "entropy")
    return all(torch.equal(getattr(left, name), getattr(right, name)) for name in names)


@contextmanager
def other_weights(policy: Policy) -> Iterator[None]:
    """While the policy has weights that say nothing."""
    kept = [weight.detach().clone() for weight in policy.parameters()]
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in policy.parameters():
            weight.normal_(std=0.2)
    yield
    with torch.no_grad():
        for weight, value in zip(policy.parameters(), kept, strict=True):
            weight.copy_(value)


class EngineLaws:
    """What holds for every engine."""

    engine_name: ClassVar[str]
    """As in `rollout.engine`."""
    words: ClassVar[tuple[str, ...]] = ()
    """Further keys that it needs."""

    @pytest.fixture(scope="class")
    @classmethod
    def policy(cls) -> Policy:
        model = load_config([]).model
        return load_policy(model, load_tokenizer(model))

    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, policy: Policy) -> Iterator[RolloutEngine]:
        config = load_config([f"rollout.engine={cls.engine_name}", "rollout.max_prompt_tokens=32", *cls.words])
        check_engine(config)
        with closing(load_engine(config.rollout, config.model, policy, policy.tokenizer)) as engine:
            yield engine

    @pytest.fixture(scope="class")
    @classmethod
    def prompts(cls, policy: Policy) -> list[list[int]]:
        return [policy.tokenizer.encode(question) for question in QUESTIONS]

    @pytest.mark.parametrize("temperature", [1.0, 0.7, 1.5])
    def test_log_probs_are_the_policys_own_on_the_same_tokens(
        self, policy: Policy, engine: RolloutEngine, prompts: list[list[int]], temperature: float
    ) -> None:
        rollouts = engine.generate(prompts, 20, Sampling(14, temperature), seed=3)
        assert len(rollouts.lengths.unique()) > 3, "the responses should differ in length for this test to say anything"
        with torch.no_grad():
            stats = policy(rollouts.responses(), temperature, with_entropy=True)
        width = stats.logp.shape[1]
        torch.testing.assert_close(rollouts.logp[:, :width], stats.logp, rtol=0, atol=1e-4)
        assert rollouts.logp.dtype == rollouts.entropy.dtype == torch.float32
        unseen = rollouts.logp.neg().where(rollouts.mask, 0.0)[:, :width]
        seen = stats.entropy if engine.sees_entropy else unseen
        torch.testing.assert_close(rollouts.entropy[:, :width], seen, rtol=0, atol=1e-4)

    def test_a_nucleus_cuts_unlikely_tokens_and_reports_the_renormalised_log_prob(
        self, policy: Policy, engine: RolloutEngine, prompts: list[list[int]]
    ) -> None:
        rollouts = engine.generate(prompts, 20, Sampling(12, temperature=1.3, top_p=0.5), seed=0)
        with torch.no_grad():
            stats = policy(rollouts.responses(), 1.3)
        width = stats.logp.shape[1]
        kept = (stats.logp - rollouts.logp[:, :width]).exp()[rollouts.mask[:, :width]]
        assert (kept > 0.4999).all() and (kept < 1.0001).all() and kept.min() < 0.9

    @pytest.mark.parametrize(
        "cut", [{"top_k": 3}, {"min_p": 0.2}, {"min_p": 0.05, "top_k": 4, "top_p": 0.7}, {"top_k": 2, "top_p": 0.95}]
    )
    def test_top_k_and_min_p_leave_the_tokens_that_they_say(
        self, policy: Policy, engine: RolloutEngine, cut: dict[str, Any]
    ) -> None:
        """The first tokens, and their log-probs, are those that `draw` has of the policy's own logits."""
        prompt, sampling, rows = policy.tokenizer.encode("5+"), Sampling(1, temperature=2.0, **cut), 1000
        rollouts = engine.generate([prompt], rows, sampling, seed=1)
        logits = policy.next_logits(torch.tensor([prompt])).detach().expand(rows, -1).clone()
        tokens, logp, _ = draw(logits, sampling, torch.linspace(0, 0.9999, rows))
        expected = dict(zip(tokens.tolist(), logp.tolist(), strict=True))
        sampled = dict(zip(rollouts.tokens[:, 0].tolist(), rollouts.logp[:, 0].tolist(), strict=True))
        assert sampled.keys() == expected.keys() and 1 < len(sampled) < 14
        assert sampled == pytest.approx(expected, abs=1e-4)

    def test_tokens_are_as_frequent_as_they_are_probable(self, policy: Policy, engine: RolloutEngine) -> None:
        """No top-k, penalty or other setting of the model's own comes between."""
        prompt, rows = policy.tokenizer.encode("5+"), 4000
        tokens = engine.generate([prompt], rows, Sampling(1, temperature=2.0), seed=1).tokens[:, 0]
        with torch.no_grad():
            exact = (policy.next_logits(torch.tensor([prompt]))[0] / 2.0).softmax(-1).double()
        counts, expected = tokens.bincount(minlength=len(exact)), exact / exact.sum() * rows
        assert (expected > 4).all(), "the temperature should make every token likely enough for the test"
        assert chisquare(counts.tolist(), expected.tolist()).pvalue > 1e-3

    def test_the_same_seed_gives_the_same_responses_and_another_seed_others(
        self, engine: RolloutEngine, prompts: list[list[int]]
    ) -> None:
        torch.manual_seed(1)
        first = engine.generate(prompts, 8, SAMPLED, seed=7)
        engine.generate(prompts[::-1], 3, SAMPLED, seed=5)
        torch.manual_seed(2)
        assert same(first, engine.generate(prompts, 8, SAMPLED, seed=7))
        other = engine.generate(prompts, 8, SAMPLED, seed=2**40 + 7)
        assert first.tokens.shape != other.tokens.shape or not torch.equal(first.tokens, other.tokens)

    def test_sampling_leaves_the_callers_generators_alone(
        self, engine: RolloutEngine, prompts: list[list[int]]
    ) -> None:
        torch.manual_seed(1)
        np.random.seed(1)
        expected = torch.rand(3).tolist(), np.random.random(3).tolist()
        torch.manual_seed(1)
        np.random.seed(1)
        engine.generate(prompts, 2, SAMPLED, seed=7)
        assert (torch.rand(3).tolist(), np.random.random(3).tolist()) == expected

    def test_responses_to_one_prompt_differ_from_each_other(
        self, engine: RolloutEngine, prompts: list[list[int]]
    ) -> None:
        rollouts = engine.generate(prompts, 16, Sampling(12, temperature=2.0), seed=7)
        different = [len(set(map(tuple, group.tolist()))) for group in rollouts.tokens.split(16)]
        assert min(different) > 1 and sum(different) > 8 * len(prompts), "some prompts leave little choice"

    def test_a_response_ends_with_its_stop_token_or_is_truncated(
        self, policy: Policy, engine: RolloutEngine, prompts: list[list[int]]
    ) -> None:
        stops = torch.tensor(sorted(policy.tokenizer.stop_tokens))
        rollouts = engine.generate(prompts, 40, Sampling(5), seed=0)
        assert rollouts.truncated.any() and not rollouts.truncated.all()
        ended_last = 0
        for row, length in enumerate(rollouts.lengths.tolist()):
            is_stop = torch.isin(rollouts.tokens[row, :length], stops)
            assert rollouts.mask[row, :length].all() and not rollouts.mask[row, length:].any()
            assert not is_stop[: length - 1].any()
            assert bool(is_stop[length - 1]) is not bool(rollouts.truncated[row])
            assert length == 5 or not rollouts.truncated[row]
            assert not rollouts.tokens[row, length:].any() and not rollouts.logp[row, length:].any()
            ended_last += length == 5 and not rollouts.truncated[row]
        assert ended_last, "no response ended at the last place, where an end is easily taken for a truncation"

    def test_responses_lie_beside_their_prompt(
        self, policy: Policy, engine: RolloutEngine, prompts: list[list[int]]
    ) -> None:
        """Greedily, with several responses to each prompt, they are the policy's likeliest tokens one after another."""
        together = engine.generate(prompts, 3, GREEDY, seed=0)
        assert together.prompt.tolist() == [number for number in range(len(prompts)) for _ in range(3)]
        assert together.prompt_tokens()[3] == prompts[1]
        for row, length in enumerate(together.lengths.tolist()):
            text = list(prompts[row // 3])
            for token in together.tokens[row, :length].tolist():
                with torch.no_grad():
                    assert token == int(policy.next_logits(torch.tensor([text]))[0].argmax())
                text.append(token)

    def test_sync_takes_over_every_weight_and_says_how_old_they_are(
        self, policy: Policy, engine: RolloutEngine, prompts: list[list[int]]
    ) -> None:
        before = engine.generate(prompts, 4, GREEDY, seed=0)
        with other_weights(policy):
            engine.sync(policy, version=1)
            garbage = engine.generate(prompts, 4, GREEDY, seed=0)
            with torch.no_grad():
                stats = policy(garbage.responses(), 1.0)
        engine.sync(policy, version=2)
        again = engine.generate(prompts, 4, GREEDY, seed=0)
        engine.sync(policy, version=0)
        assert same(again, before)
        assert [set(rollouts.version[rollouts.mask].tolist()) for rollouts in (before, garbage, again)] == [
            {0},
            {1},
            {2},
        ]
        assert garbage.tokens.shape != before.tokens.shape or not torch.equal(garbage.tokens, before.tokens)
        torch.testing.assert_close(garbage.logp[:, : stats.logp.shape[1]], stats.logp, rtol=0, atol=1e-3)
