"""Moments in eight bits: nearly those of float32, the same over any number of processes, and resumed bit for bit."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rlzoo.config import load_config
from rlzoo.experiment.progress import OPTIMIZER, PROGRESS, Progress
from rlzoo.model.sharding import CPU, local_rows, rows_here, shard, sharding_of
from rlzoo.rollout.memory import Shape
from rlzoo.training.checkpoint import load_optimizer
from rlzoo.training.fit import moment_bytes
from rlzoo.training.optimizer import MOMENTS, make_optimizer, plain_parts, take_step, zero_moment
from tests.training.shared_copies import hold_several_to_one, pretended
from tests.training.test_train import run

EIGHT_BITS = "train.optimizer=adamw_8bit"


def weights_after(optimizer: str, updates: int) -> tuple[list[Tensor], list[Tensor]]:
    """Weights before and after so many updates by noise; two of them in blocks of 128 and 64, one in none."""
    generator = torch.Generator().manual_seed(0)
    weights = [nn.Parameter(torch.randn(size, generator=generator)) for size in ((64, 384), (100, 64), (64,))]
    before = [weight.detach().clone() for weight in weights]
    made = make_optimizer(load_config([f"train.optimizer={optimizer}", "train.learning_rate=1e-2"]).train, weights)
    for _ in range(updates):
        for weight in weights:
            weight.grad = torch.randn(weight.shape, generator=generator)
        take_step(made)
    return before, [weight.detach() for weight in weights]


def test_updates_are_nearly_those_of_adamw_and_the_first_is_the_same() -> None:
    for updates, most in ((1, 1e-5), (20, 0.05)):
        before, expected = weights_after("adamw", updates)
        _, found = weights_after("adamw_8bit", updates)
        for start, a, b in zip(before, found, expected, strict=True):
            assert (a - b).norm() <= most * (b - start).norm()
        assert updates == 1 or not torch.equal(found[0], expected[0])
        assert torch.allclose(found[2], expected[2], rtol=0, atol=1e-6), "too few numbers for eight bits"


def test_a_resumed_run_is_bitwise_the_one_that_was_not_stopped(tmp_path: Path) -> None:
    words = (EIGHT_BITS, "checkpoint.every=1", "checkpoint.keep=9", "evaluation.problems=1", "evaluation.samples=1")
    words += ("task.name=knights",)  # the default model's rows are no multiple of 128 numbers, and stay in float32
    whole = run(tmp_path / "whole", *words, "train.steps=2")
    run(tmp_path / "parts", *words, "train.steps=1")
    parts = run(tmp_path / "parts", *words, "train.steps=2", "resume=true")
    assert parts.metrics.read_text() == whole.metrics.read_text()
    last = [folder / "checkpoints" / "step-000002" for folder in (parts, whole)]
    for name in ("model.safetensors", OPTIMIZER, PROGRESS):
        assert (last[0] / name).read_bytes() == (last[1] / name).read_bytes()
    saved = load_file(last[0] / OPTIMIZER)
    assert {key.partition(".")[2] for key in saved} >= {"step", "exp_avg.codes", "exp_avg.scale", "exp_avg_sq"}
    sizes = {
        dtype: sum(it.nbytes for it in saved.values() if it.dtype == dtype) for dtype in (torch.uint8, torch.float)
    }
    assert sizes[torch.uint8] > 10 * sizes[torch.float]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("0.exp_avg.codes", None, "0.exp_avg.codes is lacking"),
        ("0.exp_avg", torch.zeros(64, 384), "0.exp_avg is no moment"),
        ("0.exp_avg_sq.scale", torch.full((64, 3), -1.0), "0.exp_avg_sq.scale holds negative squares"),
        ("0.exp_avg.scale", torch.full((64, 3), torch.nan), "0.exp_avg.scale is no moment of a parameter"),
        ("0.exp_avg.codes", torch.zeros(64, 384), "0.exp_avg.codes is no moment of a parameter"),
    ],
)
def test_moments_that_no_training_leaves_are_refused(
    key: str, value: Tensor | None, message: str, tmp_path: Path
) -> None:
    weight = nn.Parameter(torch.zeros(64, 384))
    optimizer = make_optimizer(load_config([EIGHT_BITS]).train, [weight])
    saved = {"0.step": torch.tensor(1.0)}
    for name in MOMENTS:
        saved |= {f"0.{name}.{part}": it for part, it in plain_parts(zero_moment(weight, name), weight).items()}
    saved.pop(key, None)
    (tmp_path / OPTIMIZER).parent.mkdir()
    save_file(saved if value is None else {**saved, key: value}, tmp_path / OPTIMIZER)
    with pytest.raises(ValueError, match=message):
        load_optimizer(tmp_path, optimizer, Progress())


def test_blocks_are_the_same_however_many_processes_share_the_rows() -> None:
    whole = nn.Linear(
        256, 41, bias=False
    )  # of which eight processes have six rows, the last but one five, the last none
    expected = plain_parts(zero_moment(whole.weight, "exp_avg"), whole.weight)
    assert {name: tuple(part.shape) for name, part in expected.items()} == {"codes": (41, 256), "scale": (41, 1)}
    for process in (0, 6, 7):
        with pretended(process, 8):
            sharding = sharding_of(load_config(["train.sharding=fsdp"]).train, 8, CPU)
            assert sharding is not None
            weight = shard(nn.Linear(256, 41, bias=False), sharding).weight
            for name, part in plain_parts(zero_moment(weight, "exp_avg"), weight).items():
                assert part.shape == expected[name].shape
                assert local_rows(part).shape == expected[name][rows_here(weight)].shape


def test_what_fit_counts_as_moments_is_what_they_are() -> None:
    shape = Shape(256, 640, 3, 4, 2, 48, 512, tied=False)
    queries, keys = 4 * 48, 2 * 48
    layer = [(queries, 256), (keys, 256), (keys, 256), (256, queries), (640, 256), (640, 256), (256, 640)]
    weights = [nn.Parameter(torch.zeros(size)) for size in (*3 * layer, (512, 256), (512, 256))]
    optimizer = make_optimizer(load_config([EIGHT_BITS]).train, weights)
    parts = [
        part
        for weight in weights
        for name in MOMENTS
        for part in plain_parts(optimizer.state[weight][name], weight).values()
    ]
    assert sum(part.nbytes for part in parts) == moment_bytes(load_config([EIGHT_BITS]), shape, shape.parameters)


@pytest.mark.slow
def test_processes_that_share_copies_train_and_resume_as_one_does(tmp_path: Path) -> None:
    hold_several_to_one(tmp_path, "adamw_8bit")
