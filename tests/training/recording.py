"""Gradients of whole updates through the real trainer, on rollouts made here."""

import math

import torch
from torch import Tensor

from objectives import Loop, TokenBatch, parse, random_keys
from rlzoo.model.policy import Policy
from rlzoo.rollout.base import Rollouts
from rlzoo.training.rows import StepMetrics
from rlzoo.training.step import StepRollouts, Trainer

GROUPS, SIZE, LENGTH = 6, 4, 9


def rollouts(vocabulary: int = 12) -> tuple[Rollouts, TokenBatch]:
    """The same ragged random rollouts every time, in groups of four; some have tokens that the loss must not see."""
    generator = torch.Generator().manual_seed(0)
    n = GROUPS * SIZE
    lengths = torch.randint(1, LENGTH + 1, (n,), generator=generator)
    present = torch.arange(LENGTH) < lengths[:, None]
    tokens = torch.randint(0, vocabulary, (n, LENGTH), generator=generator).where(present, 0)
    correct = torch.rand(n, generator=generator).round()
    correct[::SIZE], correct[1::SIZE] = 0.0, 1.0
    group = torch.arange(n) // SIZE
    prompts = [list(range(i, i + 3 + i % 3)) for i in range(GROUPS)]
    near_uniform = torch.randn(n, LENGTH, generator=generator) / 4 - math.log(vocabulary)
    logp = near_uniform.where(present, 0.0)
    written = (torch.arange(n) % 3 == 0)[:, None] & (torch.arange(LENGTH) >= 2) & (torch.arange(LENGTH) < 5)
    mask = present & ~written
    turn = (torch.arange(LENGTH) // 4).repeat(n, 1)
    sampled = sampled_responses(prompts, group, tokens, lengths, logp, mask)
    batch = TokenBatch(
        mask=mask,
        length=mask.sum(1),
        writer=sampled.writers(),
        turn=turn,
        turn_reward=(turn + group[:, None]) % 3 / 2,
        turn_state=torch.arange(n)[:, None] * turn % 2,
        group=group,
        random_key=random_keys(group, mask.shape[1], 0),
        reward=correct,
        rewards=torch.stack([correct, (lengths % 3).float()], 1),
        correct=correct,
        truncated=sampled.truncated,
        max_length=LENGTH,
        logp_sampler=logp,
    )
    return sampled, batch


def sampled_responses(
    prompts: list[list[int]],
    prompt: Tensor,
    tokens: Tensor,
    lengths: Tensor,
    logp: Tensor,
    mask: Tensor | None = None,
    entropy: Tensor | None = None,
) -> Rollouts:
    """What an engine returns that stops at the width of the tokens."""
    return Rollouts(
        prompts=prompts,
        prompt=prompt,
        tokens=tokens,
        lengths=lengths,
        mask=torch.arange(tokens.shape[1]) < lengths[:, None] if mask is None else mask,
        logp=logp,
        entropy=logp.neg() if entropy is None else entropy,
        truncated=lengths == tokens.shape[1],
        version=torch.zeros_like(tokens),
    )


def collected_by(sampled: Rollouts, batch: TokenBatch) -> StepRollouts:
    """The rollouts of a step, all of which the first rank trains."""
    rank = torch.zeros(len(batch.mask), dtype=torch.long)
    return StepRollouts(batch, sampled, rank, batch.require("reward", "test"), [], 0, {})


class Recording(Trainer):
    """Keeps the gradients of its updates instead of following them."""

    gradients: list[Tensor]

    def record(self, expression: str, collected: StepRollouts, old: Policy, moved: Policy) -> dict[str, float]:
        """Rollout-time statistics at the weights `old`, every update of a step at `moved`; returns the metrics."""
        policy = self.accelerator.unwrap_model(self.policy)
        self.objective, self.gradients = parse(expression), []
        loop = Loop(self.objective, self.config.train.minibatches_per_step, moved=True)
        policy.load_state_dict(old.state_dict())
        step = loop.begin(self.scored(collected, loop.needs))
        policy.load_state_dict(moved.state_dict())
        metrics = StepMetrics(self.objective, collected.rollouts, self.accelerator.device)
        for number in range(len(loop)):
            self._update(collected, step, number, metrics)
        return metrics.metrics(self.accelerator)

    def _take_step(self, metrics: StepMetrics) -> bool:
        self.gradients.append(torch.cat([p.grad.flatten() for p in self.policy.parameters() if p.grad is not None]))
        self.optimizer.zero_grad()
        return True


def with_noise(policy: Policy, seed: int) -> Policy:
    """A copy whose weights are slightly others."""
    changed, noise = policy.frozen_copy(), torch.Generator().manual_seed(seed)
    for parameter in changed.parameters():
        parameter.add_(0.01 * torch.randn(parameter.shape, generator=noise))
    return changed
