"""The real vLLM, in float32 on the shipped model, is held to the laws for engines."""

from typing import Any

import pytest

from rlzoo.model.policy import Policy
from rlzoo.rollout.vllm_engine import VllmEngine
from tests.rollout.engine_laws import SAMPLED, EngineLaws, same

METHODS = ("wake_up", "collective_rpc", "generate", "sleep")


def calls_of(engine: VllmEngine, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the engine calls of vLLM from now on, with the tags or the level.

    The CPU has nothing to free: the order of the calls is vLLM's own, what they free is not seen here.
    """
    calls: list[Any] = []

    def record(method: str) -> None:
        real = getattr(engine.llm, method)

        def recorded(*arguments: Any, **options: Any) -> Any:
            calls.append((method, options.get("tags", options.get("level"))))
            return real(*arguments, **options)

        monkeypatch.setattr(engine.llm, method, recorded)

    for method in METHODS:
        record(method)
    return calls


class TestVllm(EngineLaws):
    engine_name = "vllm"
    words = ("rollout.kv_cache_gib=0.25",)

    def test_a_sleeping_engine_takes_the_weights_before_its_cache_when_it_wakes(
        self,
        policy: Policy,
        engine: VllmEngine,
        prompts: list[list[int]],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        calls = calls_of(engine, monkeypatch)
        expected = engine.generate(prompts, 4, SAMPLED, seed=0)
        monkeypatch.setattr(engine, "sleeps_here", True)
        assert same(engine.generate(prompts, 4, SAMPLED, seed=0), expected)
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
        monkeypatch.setattr(engine, "sleeps_here", False)
        engine.generate(prompts, 1, SAMPLED, seed=0)

    def test_an_engine_that_keeps_its_weights_takes_new_ones_at_once_without_its_cache_and_none_when_it_wakes(
        self,
        policy: Policy,
        engine: VllmEngine,
        prompts: list[list[int]],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        calls = calls_of(engine, monkeypatch)
        expected = engine.generate(prompts, 4, SAMPLED, seed=0)
        monkeypatch.setattr(engine, "sleeps_here", True)
        monkeypatch.setattr(engine, "keeps_weights", True)
        engine.generate(prompts, 4, SAMPLED, seed=0)
        calls.clear()
        engine.sync(policy, version=1)
        assert calls == [("wake_up", ["weights"]), ("collective_rpc", None), ("sleep", 1)]
        calls.clear()
        assert same(engine.generate(prompts, 4, SAMPLED, seed=0), expected)
        assert calls == [("wake_up", ["weights"]), ("wake_up", ["kv_cache"]), ("generate", None), ("sleep", 1)]
        monkeypatch.setattr(engine, "sleeps_here", False)
        engine.generate(prompts, 1, SAMPLED, seed=0)
