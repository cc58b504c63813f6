"""Conversations with tools by vLLM: every token has the log-prob that one pass of the policy gives it."""

from pathlib import Path
from typing import Any

import pytest
import torch

from rlzoo.config import load_config
from rlzoo.model.policy import load_policy
from rlzoo.model.tokenizer import load_tokenizer
from rlzoo.rollout import load_engine
from rlzoo.rollout.base import Sampling
from rlzoo.rollout.sampler import open_sampler
from rlzoo.rollout.vllm_engine import VllmEngine
from rlzoo.tasks import load_task
from rlzoo.tasks.grading import GraderPool
from tests.rollout.calling_model import TOOLS, save_calling_model


@pytest.mark.timeout(1500)
def test_a_conversation_is_sampled_and_scored_as_the_policy_scores_it_and_no_turn_is_read_twice(tmp_path: Path) -> None:
    save_calling_model(tmp_path / "model")
    (tmp_path / "tools.py").write_text(TOOLS)
    tools = f"task.tools=[{tmp_path}/tools.py:add,{tmp_path}/tools.py:fail]"
    room = ["rollout.max_prompt_tokens=1000", "rollout.max_response_tokens=300", "rollout.kv_cache_gib=0.25"]
    config = load_config([f"model.name={tmp_path}/model", tools, "rollout.engine=vllm", *room])
    tokenizer, task = load_tokenizer(config.model, config.task), load_task(config.task)
    policy = load_policy(config.model, tokenizer)
    engine = load_engine(config.rollout, config.model, policy, tokenizer)
    assert isinstance(engine, VllmEngine)
    read = Read(engine.llm)
    engine.llm = read
    with GraderPool(task.grader) as graders, open_sampler(config.task, engine, graders, tokenizer) as environment:
        graded = environment(task.train[:3], 4, Sampling(300), 7)
        further = read.cached[1:]
        assert read.resets == 1 and len(further) > 1
        assert min(min(each) for each in further) > 0, "the first row of a call finds nothing in an empty cache"
        again = environment(task.train[:3], 4, Sampling(300), 7)
    engine.llm = read.llm
    engine.close()
    assert read.resets == 2 and again.transcripts == graded.transcripts, "no turn depends on an earlier rollout"
    assert torch.equal(again.rollouts.logp, graded.rollouts.logp)
    assert graded.figures["turns"].max() > 1 and graded.figures["tool_tokens"].max() > 0
    rollouts = graded.rollouts
    found = policy(rollouts.responses(), 1.0).logp
    mask = rollouts.mask[:, : found.shape[1]]
    torch.testing.assert_close(found[mask], rollouts.logp[:, : found.shape[1]][mask], rtol=0, atol=1e-4)


class Read:
    """vLLM, with what it had calculated before of each prompt of a call, in tokens."""

    def __init__(self, llm: Any) -> None:
        self.llm, self.resets = llm, 0
        self.cached: list[list[int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.llm, name)

    def reset_prefix_cache(self) -> None:
        self.resets += 1
        self.llm.reset_prefix_cache()

    def generate(self, *arguments: Any, **options: Any) -> Any:
        outputs = self.llm.generate(*arguments, **options)
        self.cached.append([output.num_cached_tokens for output in outputs])
        return outputs
