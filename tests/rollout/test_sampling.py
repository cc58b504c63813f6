"""What the loop makes of sampled responses."""

import string
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from rlzoo.config import TaskConfig
from rlzoo.evaluation.evaluate import response_record
from rlzoo.evaluation.grade_file import regraded
from rlzoo.model.tokenizer import Tokenizer
from rlzoo.rollout.base import Rollouts, Sampling
from rlzoo.rollout.sampler import Sampler
from rlzoo.tasks.arithmetic import Arithmetic
from rlzoo.tasks.base import Problem
from rlzoo.tasks.dataset import DatasetGrader
from rlzoo.tasks.grading import GraderPool
from tests.conftest import CHARACTERS, character_tokenizer
from tests.training.recording import sampled_responses

RIGHT = "15-4=11"


@dataclass(frozen=True)
class Parrot:
    """An engine that always says the same, stopped by length every other time."""

    said: str = RIGHT
    characters: str = CHARACTERS

    def generate(
        self, prompts: Sequence[Sequence[int]], responses: int, sampling: Sampling, seed: int, numbers: Any = None
    ) -> Rollouts:
        n = len(prompts) * responses
        tokens = torch.tensor([[self.characters.index(character) for character in self.said]] * n)
        prompt = torch.arange(len(prompts)).repeat_interleave(responses)
        lengths, zeros = torch.full((n,), tokens.shape[1]), torch.zeros(tokens.shape)
        said = sampled_responses(prompts, prompt, tokens, lengths, zeros)
        return replace(said, truncated=torch.arange(n) % 2 == 1)


@pytest.mark.parametrize("wrong_reward", [0.0, -1.0])
def test_a_truncated_response_never_earns_reward_even_with_the_right_answer_in_it(wrong_reward: float) -> None:
    problem = Problem("12+3-4", "12+3-4=", "11")
    tokenizer = Tokenizer(character_tokenizer(), frozenset([15]), None, False)
    with GraderPool(Arithmetic(wrong_reward=wrong_reward).grader) as graders:
        graded = Sampler(Parrot(), graders, tokenizer)([problem], 4, Sampling(8), 0)  # type: ignore[arg-type]
    assert list(graded.texts) == [RIGHT] * 4
    assert graded.outcomes == ["graded", "truncated"] * 2
    assert graded.correct.tolist() == [1, 0] * 2
    assert graded.reward.tolist() == [1, wrong_reward] * 2


def test_the_text_of_a_truncated_response_is_graded_where_that_is_asked_for() -> None:
    problem = Problem("12+3-4", "12+3-4=", "11")
    tokenizer = Tokenizer(character_tokenizer(), frozenset([15]), None, False)
    with GraderPool(Arithmetic(wrong_reward=-1.0).grader) as graders:
        sampler = Sampler(Parrot(), graders, tokenizer, grade_truncated=True)  # type: ignore[arg-type]
        graded = sampler([problem], 4, Sampling(8), 0)
    assert graded.outcomes == ["graded", "truncated"] * 2
    assert graded.correct.tolist() == graded.reward.tolist() == [1] * 4


TEMPLATE = "{% for m in messages %}<user>{{ m.content }}{% endfor %}<assistant>"
ANSWER = "<answer>(1) Zoey is a knight</answer>"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begun", "said", "correct"),
    [
        ("<think>", f"Suppose so.</think>{ANSWER}", 1),
        ("<think>\n", f"Suppose so.</think>{ANSWER}", 1),
        ("<think>\n\n</think>\n\n", ANSWER, 1),
        ("<think>", f"<think>Suppose so.</think>{ANSWER}", 0),
        ("", f"<think>Suppose so.</think>{ANSWER}", 1),
        ("", f"Suppose so.</think>{ANSWER}", 0),
    ],
)
def test_a_thought_that_the_chat_template_opens_is_the_responses_own(begun: str, said: str, correct: int) -> None:
    gold = "(1) Zoey is a knight"
    problem = Problem("kk", [{"role": "user", "content": "Who is who?"}], gold, {"data_source": "kk_logic3"})
    backend = character_tokenizer(characters=string.printable)
    backend.chat_template = TEMPLATE + begun
    tokenizer = Tokenizer(backend, frozenset([len(string.printable) + 1]), None, True)
    with GraderPool(DatasetGrader()) as graders:
        sampler = Sampler(Parrot(said, string.printable), graders, tokenizer)  # type: ignore[arg-type]
        graded = sampler([problem], 1, Sampling(8), 0)
    assert graded.correct.tolist() == [correct]
    record = response_record(graded, 0, TaskConfig("kk.parquet"))
    assert regraded([record]) == [record]
