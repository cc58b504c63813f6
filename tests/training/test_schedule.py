"""Learning rates over a run: the constant one and the others are those of transformers."""

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
from tests.comparing.finished_runs import make_run


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
@given(warmup=some.integers(0, 40), steps=some.integers(1, 200))
def test_rates_are_those_of_transformers_one_step_further_on(schedule: str, warmup: int, steps: int) -> None:
    name = {"constant": "constant_with_warmup"}.get(schedule, schedule)
    optimizer = torch.optim.SGD([torch.zeros(1)])
    theirs = get_scheduler(name, optimizer, num_warmup_steps=warmup, num_training_steps=steps + 1).lr_lambdas[0]
    ours = TrainConfig(steps=steps, warmup_steps=warmup, schedule=schedule, learning_rate=1.0)
    assert [ours.rate_at(step) for step in range(steps)] == [theirs(step + 1) for step in range(steps)]


def test_a_run_whose_rate_depends_on_its_end_keeps_it(tmp_path: Path) -> None:
    folder = RunFolder(make_run(tmp_path / "run", "grpo", 0, 0.5, "train.schedule=constant"))
    config = load_config([str(folder.config)])
    config.train.steps += 1
    check_same(config, folder)
    folder.config.write_text(folder.config.read_text().replace("schedule: constant", "schedule: cosine"))
    config.train.schedule = "cosine"
    with pytest.raises(UserError, match=r"train\.steps=\d+, but the run"):
        check_same(config, folder)
