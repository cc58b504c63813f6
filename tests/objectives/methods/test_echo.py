"""ECHO's vectors: what the environment wrote is learnt, and nothing else changes."""

import pytest
import torch

from objectives import ObjectiveError, TokenBatch, Writer, parse
from tests.objectives.vectors import rollouts_z

P, E, N = Writer.POLICY, Writer.ENVIRONMENT, Writer.NONE
WRITERS = [[P, E, E, P], [E, P, N, N], [P, P, E, N], [P, N, N, N]]
"""Who wrote each token: the one before the policy's first is the prompt's, not an answer."""
OBSERVED = [[0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]


def batch() -> TokenBatch:
    writer = torch.tensor([[int(one) for one in row] for row in WRITERS])
    return rollouts_z().with_fields(writer=writer, mask=writer == Writer.POLICY)


def test_what_the_environment_wrote_behind_the_policys_first_token_is_raised_each_by_the_same() -> None:
    (found,) = parse("echo").token_gradients(batch())
    (grpo,) = parse("grpo").token_gradients(batch())
    torch.testing.assert_close(found - grpo, 0.05 / 3 * torch.tensor(OBSERVED).double())


def test_it_is_learnt_from_groups_that_earned_the_same_too() -> None:
    same = batch().with_fields(reward=torch.zeros(4).double())
    (found,) = parse("echo-kl").token_gradients(same)
    torch.testing.assert_close(found, 0.05 / 3 * torch.tensor(OBSERVED).double())


def test_rows_that_are_not_trained_on_are_no_observations() -> None:
    (found,) = parse("echo-kl+answer_filter").token_gradients(batch())
    expected = torch.tensor(OBSERVED).double() * torch.tensor([1.0, 0, 0, 1])[:, None]
    observed = torch.tensor(OBSERVED).bool()
    torch.testing.assert_close(found[observed], (0.05 / 2 * expected)[observed])


def test_a_batch_that_does_not_say_who_wrote_what_is_refused() -> None:
    with pytest.raises(ObjectiveError, match="observation_nll reads the field writer"):
        parse("echo-kl").token_gradients(rollouts_z())
