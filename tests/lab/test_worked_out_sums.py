"""What SmolLM2 learns before its leaderboard: sums written out, as a run will ask for them and grade them."""

import pytest

from benchmarks.leaderboard_smollm2.warmup import CONFIG, Recipe, batches, demonstration, to_demonstrate, worked_out
from rlzoo.config import Config, ModelConfig, load_config
from rlzoo.model.tokenizer import Tokenizer, load_tokenizer
from rlzoo.tasks import load_task
from rlzoo.tasks.base import Problem

RECIPE = Recipe()


@pytest.fixture
def config() -> Config:
    found: Config = load_config([str(CONFIG)])
    return found


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return load_tokenizer(ModelConfig(name=RECIPE.model))


def expression(problem: Problem) -> str:
    text: str = problem.data["entry"]["metadata"]["expression"]
    return text


def test_a_sum_is_written_out_term_by_term() -> None:
    assert worked_out("4 + 3 - 9") == "4 + 3 = 7, 7 - 9 = -2. <answer>-2</answer>"
    assert worked_out("14 - 30") == "14 - 30 = -16. <answer>-16</answer>"


def test_every_demonstration_is_right_and_none_is_of_a_held_out_problem(config: Config) -> None:
    task = load_task(config.task, 0, config.evaluation.problems)
    shown = to_demonstrate(config, RECIPE)
    assert len(shown) == RECIPE.steps * RECIPE.demonstrations_per_step
    assert all(task.grader(problem, worked_out(expression(problem))).correct == 1 for problem in shown)
    assert not {problem.id for problem in shown} & {problem.id for problem in task.held_out}


def test_a_demonstration_fits_what_a_run_allows(config: Config, tokenizer: Tokenizer) -> None:
    for problem in to_demonstrate(config, RECIPE)[:20]:
        tokens, written = demonstration(tokenizer, problem)
        assert tokens[~written].tolist() == tokenizer.encode(problem.prompt)
        assert (~written).sum() <= config.rollout.max_prompt_tokens
        assert written.sum() <= config.rollout.max_response_tokens
        assert int(tokens[-1]) in tokenizer.stop_tokens


def test_the_model_learns_what_it_writes_alone(config: Config, tokenizer: Tokenizer) -> None:
    problems = to_demonstrate(config, RECIPE)
    inputs, targets = next(batches(tokenizer, problems, RECIPE))
    first, written = demonstration(tokenizer, problems[0])
    assert inputs.shape == targets.shape and len(inputs) == RECIPE.demonstrations_per_step
    length = len(first) - 1
    assert inputs[0, :length].equal(first[:-1])
    assert targets[0, :length].equal(first[1:].where(written[1:], -100)) and (targets[0, length:] == -100).all()
