"""Batches for vectors by hand: a small one, and the two on which the surveys of popular methods agree."""

import torch
from torch import Tensor

from objectives import Action, Prepared, TokenBatch, Trace


def tokens(*rows: list[float]) -> Tensor:
    """[N, T] float64; short rows end in zeros."""
    width = max(len(row) for row in rows)
    return torch.tensor([[*row, *[0.0] * (width - len(row))] for row in rows], dtype=torch.float64)


def small_batch(probability: Tensor, reward: list[float], group: list[int], **more: object) -> TokenBatch:
    """A batch in which every token of `probability` [N, T] that is not 0 is there; not moved unless told otherwise."""
    logp = probability.clamp(min=1e-300).log()
    entropy = torch.ones_like(logp)
    values = tokens(reward)[0]
    fields = {
        "mask": probability > 0,
        "group": torch.tensor(group),
        "reward": values,
        "correct": (values > 0).double(),
        "max_length": 100,
        "micro_batch": torch.zeros(len(logp), dtype=torch.long),
        "logp_old": logp,
        "logp": logp,
        "entropy_old": entropy,
        "entropy": entropy,
        "random_key": torch.arange(probability.numel()).view(probability.shape),
    }
    return TokenBatch(**{**fields, **more})


def prepared(batch: TokenBatch, advantage: Tensor) -> Prepared:
    """A batch whose advantage [N, T] is that of the rollouts."""
    trace = Trace().record("", Action.TOKENS, batch.mask).record("given", Action.ADVANTAGE, advantage)
    return Prepared.of(batch, advantage=advantage, selected=batch.mask[:, 0], trace=trace)


LENGTHS_Z = [4, 2, 3, 1]
ADVANTAGE_Z = tokens([1] * 4, [-0.5] * 2, [-1] * 3, [0.5])


def batch_z(advantage: Tensor = ADVANTAGE_Z) -> Prepared:
    """One group of four responses, as prepared: with an advantage [N, T]."""
    return prepared(rollouts_z(), advantage)


def rollouts_z() -> TokenBatch:
    """The same before anything is done to it."""
    logp_old = tokens([-1, -0.5, -2, -3], [-0.1, -2.5], [-1.5, -4, -0.2], [-0.7])
    moved = tokens([0.05, 0.3, -0.4, 1.2], [-0.3, 0.1], [0.6, 2.5, -0.05], [-0.02])
    to_sampler = tokens([0.02, -0.8, 0.9, 1.7], [-0.01, 0.01], [0, 0.001, 0], [-2])
    to_reference = tokens([0.1, -0.2, 0.3, 0], [0.05, 0.05], [0, 0.2, -0.1], [0.4])
    entropy = tokens([0.1, 0.2, 1.5, 2], [0.05, 3], [0.8, 2.2, 0.1], [0.6])
    return TokenBatch(
        mask=torch.arange(4) < torch.tensor(LENGTHS_Z)[:, None],
        group=torch.zeros(4, dtype=torch.long),
        reward=tokens([1, 0, 0, 1])[0],
        correct=tokens([1, 0, 0, 1])[0],
        max_length=8,
        logp_old=logp_old,
        logp=logp_old + moved,
        logp_sampler=logp_old - to_sampler,
        logp_ref=logp_old - to_reference,
        entropy=entropy,
        entropy_old=entropy,
        random_key=torch.arange(16).view(4, 4),
    )


def batch_r() -> TokenBatch:
    """Three groups of four: half right, three right, all right."""
    reward = tokens([1, 0, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1])[0]
    lengths = torch.tensor([4, 2, 3, 1, 2, 4, 1, 3, 3, 3, 2, 4])
    mask = torch.arange(4) < lengths[:, None]
    return TokenBatch(mask=mask, group=torch.arange(12) // 4, reward=reward, correct=reward)
