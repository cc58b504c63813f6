"""The arithmetic that the table of phases claims is the arithmetic that is done."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from rlzoo.model.accelerator import measured_peak
from tests.model.tiny_models import tiny_policy
from tests.training.recording import rollouts


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_the_operations_of_a_forward_pass_are_those_that_torch_counts(name: str, share: bool) -> None:
    policy = tiny_policy(name)
    policy.longest_tree *= share
    sampled, _ = rollouts(vocabulary=300)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        stats = policy(sampled.responses(), 1.0)
    products = sum(n for op, n in counter.get_flop_counts()["Global"].items() if "attention" not in str(op))
    expected = policy.forward_flops(stats.positions, int(sampled.mask.sum()))
    assert products == pytest.approx(expected, rel=0.02)  # norms' weights are counted as products


@pytest.mark.slow
def test_the_peak_of_this_machine_is_positive() -> None:
    assert measured_peak(torch.device("cpu"), torch.float32) > 1e9
