"""Processes that share copies of the weights, or leave them in the machine's memory, train as one does."""

from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, distributed
from torch.distributed.fsdp import FSDPModule

from objectives import parse
from rlzoo.config import load_config
from rlzoo.errors import UserError
from rlzoo.experiment.check import check_keys, check_shards
from rlzoo.model.policy import Policy
from rlzoo.model.sharding import (
    CPU,
    add_up_copies,
    local_rows,
    rows_here,
    shard,
    sharding_of,
)
from rlzoo.rollout.memory import Shape
from rlzoo.training.fit import predict
from tests.conftest import error_of
from tests.model.tiny_models import responses, tiny_policy
from tests.training.shared_copies import hold_several_to_one, pretended

SHAPE = Shape(2048, 6144, 28, 16, 8, 128, 151_936, tied=True)


def shared(policy: Policy, processes: int, *words: str) -> Policy:
    """The policy, as the words say that it is shared out."""
    sharding = sharding_of(load_config(["train.sharding=fsdp", *words]).train, processes, CPU)
    assert sharding is not None
    return shard(policy, sharding)


def test_neighbours_share_a_copy_and_read_the_rows_that_they_hold() -> None:
    expected = {name: weight.detach().clone() for name, weight in tiny_policy("llama").named_parameters()}
    held: list[dict[str, Tensor]] = []
    for process in range(6):
        with pretended(process, 6):
            weights = dict(shared(tiny_policy("llama"), 6, "train.shards=3").named_parameters())
            held.append({name: local_rows(weight.detach()).clone() for name, weight in weights.items()})
            for name, weight in weights.items():
                assert torch.equal(held[-1][name], expected[name][rows_here(weight)]), (process, name)
    for first in (0, 3):
        for name, weight in expected.items():
            assert torch.equal(torch.cat([held[first + number][name] for number in range(3)]), weight)


@pytest.mark.parametrize(("shards", "sums"), [("2", 1), ("4", 0)])
def test_gradients_of_all_copies_are_added_up_once_an_update(shards: str, sums: int) -> None:
    calls: list[int] = []
    with pretended(0, 4), patch.object(distributed, "all_reduce", lambda *_, **__: calls.append(1)):
        policy = shared(tiny_policy("llama"), 4, f"train.shards={shards}")
        for is_last in (False, False, True):
            assert not calls
            add_up_copies(policy, is_last)
            policy(responses(), 1.0).logp.sum().backward()
    units = [module for module in policy.modules() if isinstance(module, FSDPModule)]
    assert len(calls) == sums * len(units) and len(units) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train.shards=2"], "train.shards=2 has no effect without train.sharding=fsdp; set that"),
        (["train.sharding=fsdp", "model.compile=true"], "model.compile=true is not supported for sharded models"),
    ],
)
def test_keys_that_would_have_no_effect_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_keys(load_config(words))


def test_processes_that_cannot_be_dealt_over_copies_are_refused() -> None:
    train = load_config(["train.sharding=fsdp", "train.shards=4"]).train
    check_shards(train, 8)
    with pytest.raises(UserError, match=r"train\.shards=4: 6 processes cannot be dealt over copies of 4 each; start"):
        check_shards(train, 6)


def test_a_missing_package_is_said_before_anything_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlzoo.experiment.check.find_spec", lambda name: None)
    assert "pip install 'rlzoo-llm[lora]'" in error_of(capsys, "train", "model.lora.rank=2", f"output={tmp_path}/run")


def parts(gpus: int, *words: str) -> dict[str, float]:
    """What training takes, by what takes it."""
    config = load_config(["train.sharding=fsdp", *words])
    phases = {phase.name: phase.parts for phase in predict(config, SHAPE, parse("grpo+kl"), gpus)}
    return dict(phases["training"])


def test_fit_counts_a_copy_over_those_who_share_it() -> None:
    over_four, over_all = parts(32, "train.shards=4"), parts(32)
    for name in ("weights", "Adam", "reference"):
        assert over_four[name] == 8 * over_all[name] > 0


@pytest.mark.smoke
@pytest.mark.slow
def test_processes_that_share_copies_train_and_resume_as_one_does(tmp_path: Path) -> None:
    hold_several_to_one(tmp_path)
