"""The shipped model that has a calculator: it reads what it was warmed up on, seldom calls, and learns to call."""

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from benchmarks.calculator.table import figures
from rlzoo.config import load_config
from rlzoo.config.decoding import Decoding
from rlzoo.evaluation.evaluate import read_evaluations
from rlzoo.lab.warmup import encoded, evaluate_folder
from rlzoo.model.policy import load_policy
from rlzoo.model.pretrained import EMBEDDED
from rlzoo.model.tokenizer import load_tokenizer
from rlzoo.report.terminal import Terminal
from rlzoo.rollout import load_engine
from rlzoo.rollout.base import Sampling
from rlzoo.rollout.sampler import open_sampler
from rlzoo.tasks import demonstrated_task, load_task
from rlzoo.tasks.calculator import Calculator
from rlzoo.tasks.grading import GraderPool
from rlzoo.training.run import train

ROOM = 48


def test_a_rollout_is_token_for_token_the_demonstration_that_says_the_same() -> None:
    config = load_config(["task.name=calculator"])
    tokenizer, task = load_tokenizer(config.model, config.task), load_task(config.task)
    engine = load_engine(config.rollout, config.model, load_policy(config.model, tokenizer), tokenizer)
    with GraderPool(task.grader) as graders, open_sampler(config.task, engine, graders, tokenizer) as environment:
        sampled = environment(task.train[:24], 8, Sampling(ROOM), 7)
        rollouts, answers = sampled.rollouts, 0
        for row in (~rollouts.truncated).nonzero()[:, 0].tolist():
            tokens, own = (values[row, : rollouts.lengths[row]] for values in (rollouts.tokens, rollouts.mask))
            borders = [0, *((own.diff().nonzero()[:, 0] + 1).tolist()), len(own)]
            turns = [tokenizer.decode(tokens[begin:end].tolist()) for begin, end in pairwise(borders)]
            if tokenizer.unknown(tokens.tolist()):
                continue  # an error text, which is not decoded as it was
            turns[1::2] = [text.removeprefix(":").removesuffix("=") for text in turns[1::2]]
            prompt = str(sampled.problem_of(row).prompt)
            again, written = encoded(tokenizer, prompt, turns)
            assert again.tolist() == [*tokenizer.encode(prompt), *tokens.tolist()]
            assert written[-len(own) :].tolist() == own.tolist() and not written[: -len(own)].any()
            answers += len(turns) // 2
    assert answers >= 10, "few rows call, and the test says little"


def test_the_demonstrations_have_no_unknown_token_but_in_errors_and_fit_into_a_response() -> None:
    config = load_config(["task.name=calculator"])
    tokenizer, task = load_tokenizer(config.model, config.task), Calculator()
    rng = random.Random(0)
    for problem in task.train[:500]:
        turns = task.conversation(problem, rng, 0.2)
        tokens, own = encoded(tokenizer, str(problem.prompt), turns)
        assert tokenizer.unknown(tokens[own].tolist()) == 0
        assert tokenizer.unknown(tokens.tolist()) == 0 or "error" in turns[1]
        assert len(tokens) - len(str(problem.prompt)) <= ROOM


@pytest.mark.slow
def test_the_shipped_model_is_seldom_right_as_it_seldom_calls() -> None:
    accuracies = evaluate_folder(EMBEDDED / "calculator", demonstrated_task(load_config(["task.name=calculator"]).task))
    assert 0.25 < accuracies["sampled"] < 0.45 and accuracies["greedy"] < 0.6


@pytest.mark.exhaustive
def test_it_learns_to_call_where_it_has_to(tmp_path: Path) -> None:
    words = ["train.steps=25", "evaluation.problems=128", "evaluation.samples=4", f"output={tmp_path / 'run'}"]
    config = load_config(["task.name=calculator", *words])
    found = read_evaluations(train(config, Terminal(Console(quiet=True))), Decoding(1.0, 1.0))
    before, after = (np.array(figures(found[step].records)) for step in (0, 25))
    right, _, _, calls_for_products, _, _ = after - before
    assert right > 15 and calls_for_products > 0.25
    assert torch.isfinite(torch.tensor(after)).all()
