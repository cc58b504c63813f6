"""What SmolLM2 learns before its leaderboard: sums written out, as a run will ask for them and grade them."""

import pytest

from benchmarks.leaderboard_smollm2.warmup import CONFIG, Recipe, batches, demonstration, to_demonstrate, worked_out
from rlzoo.config import Config, load_config
from rlzoo.model.tokenizer import load_tokenizer
from rlzoo.tasks import load_task

RECIPE = Recipe()


@pytest.fixture
def config() -> Config:
    found: Config = load_config([str(CONFIG), f"model.name={RECIPE.model}"])
    return found


def test_every_demonstration_is_right_and_none_is_of_a_held_out_problem(config: Config) -> None:
    task = load_task(config.task, 0, config.evaluation.problems)
    shown = to_demonstrate(config, RECIPE)
    assert len(shown) == RECIPE.steps * RECIPE.demonstrations_per_step
    texts = [worked_out(problem.data["entry"]["metadata"]["expression"]) for problem in shown]
    assert all(task.grader(*pair).correct == 1 for pair in zip(shown, texts, strict=True))
    assert not {problem.id for problem in shown} & {problem.id for problem in task.held_out}


def test_the_model_learns_what_it_writes_alone(config: Config) -> None:
    tokenizer, problems = load_tokenizer(config.model), to_demonstrate(config, RECIPE)
    inputs, targets = next(batches(tokenizer, problems, RECIPE))
    for row, problem in enumerate(problems[: RECIPE.demonstrations_per_step]):
        tokens, _ = demonstration(tokenizer, problem)
        prompt, end = len(tokenizer.encode(problem.prompt)), len(tokens) - 1
        assert inputs[row, :end].equal(tokens[:-1])
        assert targets[row, prompt - 1 : end].equal(tokens[prompt:]) and int(tokens[-1]) in tokenizer.stop_tokens
        assert (targets[row, : prompt - 1] == -100).all() and (targets[row, end:] == -100).all()
