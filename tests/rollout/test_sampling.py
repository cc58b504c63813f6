"""What the loop makes of sampled responses."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from rlzoo.model.tokenizer import Tokenizer
from rlzoo.rollout.base import Rollouts, Sampling
from rlzoo.rollout.sampler import Sampler
from rlzoo.tasks.arithmetic import ArithmeticGrader
from rlzoo.tasks.base import Problem
from rlzoo.tasks.grading import GraderPool
from tests.conftest import CHARACTERS, character_tokenizer
from tests.training.recording import sampled_responses

RIGHT = "15-4=11"


class Parrot:
    """An engine that says the right answer, stopped by length every other time."""

    def generate(
        self, prompts: Sequence[Sequence[int]], responses: int, sampling: Sampling, seed: int, numbers: Any = None
    ) -> Rollouts:
        n = len(prompts) * responses
        tokens = torch.tensor([[CHARACTERS.index(character) for character in RIGHT]] * n)
        prompt = torch.arange(len(prompts)).repeat_interleave(responses)
        lengths, zeros = torch.full((n,), tokens.shape[1]), torch.zeros(tokens.shape)
        said = sampled_responses(prompts, prompt, tokens, lengths, zeros)
        return replace(said, truncated=torch.arange(n) % 2 == 1)


@pytest.mark.parametrize("wrong_reward", [0.0, -1.0])
def test_a_truncated_response_never_earns_reward_even_with_the_right_answer_in_it(wrong_reward: float) -> None:
    problem = Problem("12+3-4", "12+3-4=", "11")
    tokenizer = Tokenizer(character_tokenizer(), frozenset([15]), None, False)
    with GraderPool(ArithmeticGrader(wrong_reward)) as graders:
        graded = Sampler(Parrot(), graders, tokenizer)([problem], 4, Sampling(8), 0)  # type: ignore[arg-type]
    assert list(graded.texts) == [RIGHT] * 4
    assert graded.outcomes == ["graded", "truncated"] * 2
    assert graded.correct.tolist() == [1, 0] * 2
    assert graded.reward.tolist() == [1, wrong_reward] * 2
