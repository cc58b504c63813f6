"""Long prompts are refused or dropped, and a prompt that comes a hundred times is encoded once."""

import json
import logging
import pickle
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from rlzoo.config import ModelConfig, RolloutConfig, load_config
from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate import call_figures
from rlzoo.experiment.check import check, check_prompts
from rlzoo.experiment.experiment import Experiment, epoch_order, without_long_prompts
from rlzoo.model.tokenizer import Tokenizer, load_tokenizer
from rlzoo.tasks.base import Problem
from rlzoo.tasks.calculator import Calculator

SHORT, LONG = "1+2=", "1+2+3+4+5+6+7+8="


def experiment(folder: Path, model: Path, training: list[str], held_out: list[str], *words: str) -> Experiment:
    """A run on a dataset whose prompts are these."""
    for split, prompts in (("train", training), ("test", held_out)):
        rows = [json.dumps({"question": prompt, "answer": "3"}) + "\n" for prompt in prompts]
        (folder / f"{split}.jsonl").write_text("".join(rows))
    limits = ("rollout.max_prompt_tokens=8", "rollout.max_response_tokens=4", "train.steps=1")
    return check(load_config([f"model.name={model}", f"task.name={folder}", *limits, *words]))


def test_a_prompt_is_encoded_once_however_often_it_comes(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, encoded, encode = ModelConfig(name=str(tiny_model)), Counter[str](), Tokenizer.encode
    monkeypatch.setattr(Tokenizer, "encode", lambda self, prompt: encoded.update([str(prompt)]) or encode(self, prompt))
    problems = [Problem(str(i), "12+3="[: 3 + i % 2], "3") for i in range(50)]
    problems += [Problem(f"chat {i}", [{"role": "user", "content": "1+1="}], "2") for i in range(50)]
    check_prompts(config, RolloutConfig(), load_tokenizer(config), problems)
    assert len(encoded) == 3 and set(encoded.values()) == {1}


def test_a_prompt_without_a_token_is_refused(tiny_model: Path) -> None:
    config = ModelConfig(name=str(tiny_model))
    with pytest.raises(UserError, match="the prompt of problem 7 has no tokens"):
        check_prompts(config, RolloutConfig(), load_tokenizer(config), [Problem("7", "", "3")])


def test_training_problems_with_long_prompts_are_dropped_and_counted(
    tiny_model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    training = [SHORT, LONG, LONG, "3+4=", LONG]
    with pytest.raises(UserError, match=r"has 16 tokens, more than rollout\.max_prompt_tokens=8.*drop_long_prompts"):
        experiment(tmp_path, tiny_model, training, ["7+1="])
    with caplog.at_level(logging.WARNING):
        kept = experiment(tmp_path, tiny_model, training, ["7+1="], "rollout.drop_long_prompts=true")
    assert "3 of 5 training problems have more than 8 prompt tokens" in caplog.text
    assert {str(problem.prompt) for problem in kept.problems(0, 7)} == {str(p.prompt) for p in kept.task.train}
    assert [problem.prompt[0]["content"] for problem in kept.task.train] == [SHORT, "3+4="]  # type: ignore[index, call-overload]
    assert len(kept.held_out) == 1


def test_what_else_a_task_has_is_there_without_its_long_prompts() -> None:
    tokenizer = load_tokenizer(ModelConfig(name="embedded:calculator"))
    kept = without_long_prompts(Calculator(problems=50), 6, tokenizer)
    assert 0 < len(kept.train) < 50 and pickle.loads(pickle.dumps(kept)).name == "calculator"
    assert "right calls (%)" in call_figures([{"tool_calls": 0, "tool_errors": 0, "transcript": ""}], kept)


def test_prompts_that_refills_and_rollouts_ahead_may_draw_are_checked(tiny_model: Path, tmp_path: Path) -> None:
    words = ("rollout.prompts_per_step=1", "train.minibatches_per_step=1", "seed=0")
    order = epoch_order(2, 0, 0)
    training = [SHORT if number == order[0] else LONG for number in range(2)]
    experiment(tmp_path, tiny_model, training, ["7+1="], *words, "objective=grpo")
    for more in (["objective=grpo", "rollout.ahead=1"], ["objective=grpo+dynamic_sampling"]):
        with pytest.raises(UserError, match="has 16 tokens"):
            experiment(tmp_path, tiny_model, training, ["7+1="], *words, *more)


def test_the_rows_of_a_grid_share_their_problems_and_one_that_draws_more_checks_more(
    tiny_model: Path, tmp_path: Path
) -> None:
    training = [SHORT if number == epoch_order(2, 0, 0)[0] else LONG for number in range(2)]
    words = ("rollout.prompts_per_step=1", "train.minibatches_per_step=1", "seed=0", "objective=grpo")
    first = experiment(tmp_path, tiny_model, training, ["7+1="], *words)
    second = check(replace(first.config, objective="dr_grpo"), first)
    assert second.task is first.task and second.tokenizer is first.tokenizer and second.objective != first.objective
    with pytest.raises(UserError, match="has 16 tokens"):
        check(replace(first.config, objective="grpo+dynamic_sampling"), second)


def test_held_out_problems_are_never_dropped(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has 16 tokens"):
        experiment(tmp_path, tiny_model, [SHORT], [LONG], "rollout.drop_long_prompts=true")


def test_a_limit_that_drops_all_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"rollout\.max_prompt_tokens=8: all training prompts are longer"):
        experiment(tmp_path, tiny_model, [LONG], [SHORT], "rollout.drop_long_prompts=true")
