"""Conversations by a vLLM server: log-probs are the policy's, and a row depends on nothing but its number."""

from pathlib import Path

import pytest
import torch

from rlzoo.model.policy import load_policy
from rlzoo.model.tokenizer import load_tokenizer
from rlzoo.rollout import load_engine
from rlzoo.rollout.base import Sampling
from rlzoo.rollout.sampler import GradedRollouts, open_sampler
from rlzoo.tasks import load_task
from rlzoo.tasks.grading import GraderPool
from tests.vllm.test_server import served, serving

CALCULATOR = ("model.name=embedded:calculator", "task.name=calculator")
TOOL = "task.tools=[rlzoo.tasks.calculator:calculate]"


@pytest.mark.timeout(1500)
def test_a_server_holds_conversations_that_the_policy_scores_alike_and_that_do_not_depend_on_others(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, *CALCULATOR, TOOL) as address:
        config = served(address, *CALCULATOR, TOOL)
        tokenizer, task = load_tokenizer(config.model, config.task), load_task(config.task)
        policy = load_policy(config.model, tokenizer)
        engine = load_engine(config.rollout, config.model, policy, tokenizer)
        with (
            GraderPool(task.grader) as graders,
            open_sampler(config.task, engine, graders, tokenizer) as environment,
        ):

            def sample(numbers: range) -> GradedRollouts:
                graded: GradedRollouts = environment(
                    [task.train[number] for number in numbers], 4, Sampling(60), 7, numbers
                )
                return graded

            together, alone = sample(range(6)), sample(range(4, 6))
        engine.close()
    assert together.figures["turns"].max() > 1 and together.figures["tool_tokens"].max() > 0
    assert together.transcripts[16:] == alone.transcripts
    rollouts = together.rollouts
    found = policy(rollouts.responses(), 1.0).logp
    mask = rollouts.mask[:, : found.shape[1]]
    torch.testing.assert_close(found[mask], rollouts.logp[:, : found.shape[1]][mask], rtol=0, atol=1e-4)
