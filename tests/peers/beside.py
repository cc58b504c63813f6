"""Another library's loss and ours on the same random batches."""

import torch
from torch import Tensor

from objectives import TokenBatch, parse
from tests.objectives.batches import random_case, token_batch

SEEDS = range(12)
FEW = range(4)
"""Where many settings are tried."""


def batch_of(seed: int) -> TokenBatch:
    """Mild random rollouts, of which half have tokens in the middle that the loss must not see."""
    return token_batch(random_case(seed, extreme=False, moved=True)).blank_outside()


def ours(expression: str, batch: TokenBatch) -> Tensor:
    """[N, T]: minus the derivative of the loss by log-prob."""
    (push,) = parse(expression).token_gradients(batch)
    return push


def ours_on_entropy(expression: str, batch: TokenBatch) -> Tensor:
    """[N, T]: minus the derivative of the loss by the entropy of the next token."""
    objective = parse(expression)
    (update,) = objective.passes(objective.prepare(batch))
    plan = objective.plan(update)
    entropy = batch.entropy.clone().requires_grad_()
    return pushed(objective.loss(plan, slice(None), batch.logp, entropy), entropy, batch.mask)


def pushed(loss: Tensor, logp: Tensor, mask: Tensor) -> Tensor:
    """[N, T]: the same of a loss that another library calculated from `logp`."""
    (gradient,) = torch.autograd.grad(loss, logp)
    return torch.where(mask, -gradient, 0.0)


def assert_same(ours: Tensor, theirs: Tensor) -> None:
    """Up to their 1e-8 in denominators."""
    torch.testing.assert_close(ours, theirs.double(), rtol=1e-6, atol=1e-9)
