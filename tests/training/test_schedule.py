"""Learning rates over a run: the constant one as it ever was, the others those of transformers."""

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some
from transformers import get_scheduler

from rlzoo.config import TrainConfig, load_config
from rlzoo.errors import UserError
from rlzoo.experiment.claim import check_same
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.training.step import rate_fraction
from tests.comparing.finished_runs import make_run


@given(some.integers(1, 300), some.integers(0, 40))
def test_the_constant_rate_rises_and_stays(steps: int, warmup: int) -> None:
    fraction = rate_fraction(TrainConfig(steps=steps, warmup_steps=warmup))
    for step in range(steps):
        assert fraction(step) == min(1.0, (step + 1) / max(1, warmup))


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
@given(warmup=some.integers(0, 10), more=some.integers(2, 200))
def test_the_others_rise_fall_and_never_stand_still(schedule: str, warmup: int, more: int) -> None:
    steps = warmup + more
    fraction = rate_fraction(TrainConfig(steps=steps, warmup_steps=warmup, schedule=schedule))
    rates = [fraction(step) for step in range(steps)]
    assert all(0 < rate <= 1 for rate in rates)
    top = max(0, warmup - 1)
    assert rates[: top + 1] == sorted(rates[: top + 1]) and rates[top:] == sorted(rates[top:], reverse=True)
    middle = (steps + 1 - warmup) / 2 + warmup - 1
    if middle == int(middle):
        assert rates[int(middle)] == pytest.approx(0.5)
    quarter = (steps + 1 - warmup) / 4 + warmup - 1
    if quarter == int(quarter) and quarter >= 0:
        expected = 0.75 if schedule == "linear" else (1 + math.cos(math.pi / 4)) / 2
        assert rates[int(quarter)] == pytest.approx(expected)


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
@given(warmup=some.integers(0, 40), steps=some.integers(1, 200))
def test_rates_are_those_of_transformers_one_step_further_on(schedule: str, warmup: int, steps: int) -> None:
    name = {"constant": "constant_with_warmup"}.get(schedule, schedule)
    optimizer = torch.optim.SGD([torch.zeros(1)])
    theirs = get_scheduler(name, optimizer, num_warmup_steps=warmup, num_training_steps=steps + 1).lr_lambdas[0]
    ours = rate_fraction(TrainConfig(steps=steps, warmup_steps=warmup, schedule=schedule))
    assert [ours(step) for step in range(steps)] == [theirs(step + 1) for step in range(steps)]


def test_a_run_whose_rate_depends_on_its_end_keeps_it(tmp_path: Path) -> None:
    folder = RunFolder(make_run(tmp_path / "run", "grpo", 0, 0.5, "train.schedule=constant"))
    config = load_config([str(folder.config)])
    config.train.steps += 1
    check_same(config, folder)
    folder.config.write_text(folder.config.read_text().replace("schedule: constant", "schedule: cosine"))
    config.train.schedule = "cosine"
    with pytest.raises(UserError, match=r"train\.steps=\d+, but the run"):
        check_same(config, folder)
