"""The entropy advantage's vectors."""

import pytest
import torch

from objectives import parse
from tests.objectives.batches import random_case, token_batch
from tests.objectives.comparison import at_current
from tests.objectives.vectors import ADVANTAGE_Z, PER_BATCH, assert_close, batch_z, pushes, small_batch, tokens


def test_uncertain_tokens_gain_up_to_half_their_advantage() -> None:
    batch = batch_z()
    found = parse("entropy_advantage").plan(batch).batch.advantage - ADVANTAGE_Z
    assert_close(found, [0.04, 0.08, 0.5, 0.5], [0.02, 0.25], [0.32, 0.5, 0.04], [0.24])
    assert_close(
        pushes("entropy_advantage+unclipped", PER_BATCH),
        [1.0933219, 1.4578475, 1.0054801, 4.9801754],
        [-0.35559275, -0.27629273],
        [-1.2390408, -6.091247, -0.91318025],
        [0.72534702],
    )


def test_the_clip_is_that_of_the_shaped_advantage() -> None:
    found = pushes("entropy_advantage", PER_BATCH)
    unclipped = pushes("entropy_advantage+unclipped", PER_BATCH)
    assert (found == 0).nonzero().tolist() == (~batch_z().mask | (found == 0)).nonzero().tolist()
    assert [tuple(at) for at in ((found == 0) & batch_z().mask).nonzero().tolist()] == [(0, 1), (0, 3), (1, 0)]
    torch.testing.assert_close(found[found != 0], unclipped[found != 0])


def test_no_advantage_changes_its_sign() -> None:
    for seed in range(10):
        batch = at_current(token_batch(random_case(seed)))
        plain, shaped = (parse(name).plan(parse(name).prepare(batch)) for name in ("justrl", "entropy_advantage"))
        assert torch.equal(shaped.batch.advantage.sign(), plain.batch.advantage.sign())


def test_beside_a_factor_of_the_rollouts_the_equation_prints_the_order_that_is_calculated() -> None:
    objective = parse("grpo-kl+entropy_advantage(alpha=0.01)+ar(alpha=0.7)")
    batch = small_batch(tokens([0.5, 0.5], [0.5, 0.5]), [1, 0], [0, 0])
    plan = objective.plan(objective.prepare(batch))
    centred = parse("grpo").advantages(batch)[0].item()
    first, second = objective.equation.index("A *="), objective.equation.index("A +=")
    assert first < second and plan.batch.advantage[0, 0].item() == pytest.approx(centred * (0.3 + 0.7 * 0.5) + 0.01)
