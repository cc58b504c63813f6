"""vLLM that sleeps as on a GPU: nothing is sampled with memory that was given back, by one process or by two."""

import json
from pathlib import Path

import pytest

from tests.processes import TWO, launch
from tests.rollout.engine_laws import EngineLaws
from tests.training.test_ranks import agree
from tests.vllm.rank_sleeps import STEPS


class TestSleepingVllm(EngineLaws):
    """An engine that sleeps after every call is held to the laws for engines."""

    engine_name = "tests.vllm.sleeping_engine:SleepingVllm"
    words = ("rollout.kv_cache_gib=0.25",)


@pytest.mark.timeout(1500)
def test_two_processes_sample_from_the_current_policy_though_their_engines_slept_with_its_weights_or_without(
    tmp_path: Path,
) -> None:
    launch([*TWO, "-m", "tests.vllm.rank_sleeps", tmp_path])
    runs = json.loads((tmp_path / "steps.json").read_text())
    for sharding, level, shares in (("none", 2, 1), ("fsdp", 1, 2)):
        assert len(runs[sharding]) == STEPS
        for step in runs[sharding]:
            assert step["metrics"]["sampler/largest_difference"] < 1e-4, (sharding, step["metrics"]["step"])
            assert step["metrics"]["gradient_norm"] > 0 and step["metrics"]["updates_skipped"] == 0
            assert step["levels"] == [level, level] and step["weights_here"] * shares == step["weights"]
            assert min(step["lost"]) >= step["weights"], "what outlasts its sleep would hide that it is not taken again"
    for whole, sharded in zip(runs["none"], runs["fsdp"], strict=True):
        assert sharded["tokens"] == whole["tokens"]
        agree(sharded["metrics"], whole["metrics"])
