"""Conversations with tools by vLLM: every token has the log-prob that one pass of the policy gives it."""

from pathlib import Path

import torch

from rlzoo.config import load_config
from rlzoo.model.policy import load_policy
from rlzoo.model.tokenizer import load_tokenizer
from rlzoo.rollout import load_engine
from rlzoo.rollout.base import Sampling
from rlzoo.rollout.environment import environment_opened
from rlzoo.tasks import load_task
from rlzoo.tasks.grading import GraderPool
from tests.rollout.calling_model import TOOLS, save_calling_model


def test_a_conversation_is_sampled_and_scored_as_the_policy_scores_it(tmp_path: Path) -> None:
    save_calling_model(tmp_path / "model")
    (tmp_path / "tools.py").write_text(TOOLS)
    tools = f"task.tools=[{tmp_path}/tools.py:add,{tmp_path}/tools.py:fail]"
    room = ["rollout.max_prompt_tokens=1000", "rollout.max_response_tokens=300", "rollout.kv_cache_gib=0.25"]
    config = load_config([f"model.name={tmp_path}/model", tools, "rollout.engine=vllm", *room])
    tokenizer, task = load_tokenizer(config.model, config.task), load_task(config.task)
    policy = load_policy(config.model, tokenizer)
    engine = load_engine(config.rollout, config.model, policy, tokenizer)
    with GraderPool(task.grader) as graders, environment_opened(config.task, engine, graders, tokenizer) as environment:
        graded = environment(task.train[:3], 4, Sampling(300), 7)
    engine.close()
    assert graded.figures["turns"].max() > 1 and graded.figures["tool_tokens"].max() > 0
    rollouts = graded.rollouts
    found = policy(rollouts.responses(), 1.0).logp
    mask = rollouts.mask[:, : found.shape[1]]
    torch.testing.assert_close(found[mask], rollouts.logp[:, : found.shape[1]][mask], rtol=0, atol=1e-4)
