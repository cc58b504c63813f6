"""GMPO's vectors."""

import pytest
import torch

from objectives import parse
from tests.objectives.vectors import PER_RESPONSE, assert_close, batch_z, loss_of, pushes


def test_a_response_has_the_geometric_mean_of_its_clipped_ratios() -> None:
    ratio = parse("gmpo").parts[1].ratio(batch_z(), batch_z().logp)
    assert ratio[:, 0].tolist() == pytest.approx([1.09144226, 0.90483742, 2.76396617, 0.98019867])
    found = pushes("gmpo", PER_RESPONSE)
    assert_close(found, [1.0914423] * 3 + [0], [-0.45241871] * 2, [-2.7639662] * 3, [0.49009934])
    assert loss_of("gmpo") == pytest.approx(0.40871082, abs=1e-8)


def test_without_widths_it_is_the_sequence_ratio() -> None:
    found = pushes("gmpo(low=1e9,high=1e9)", PER_RESPONSE)
    torch.testing.assert_close(found, pushes("grpo-kl+sequence_ratio+unclipped", PER_RESPONSE))
