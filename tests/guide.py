"""The loop that objectives/adapters/README.md shows for trainers without an adapter, as it stands there."""

from pathlib import Path

import torch

import objectives
from objectives import Loop

GUIDE = Path(objectives.__file__).parent / "adapters" / "README.md"


def learn(objective, batch, forward, optimizer, minibatches=1, micro_batch=8, state=None):
    """Every update on the rollouts of a step; returns the state of controllers, for the next step.

    `batch` is a TokenBatch of what the rollouts are: mask, group, reward, correct, truncated, ... `forward(rows)` gives
    log-probs and entropies [n, T] of some rows under the policy as it is, at the temperature of sampling.
    """
    loop = Loop(objective, minibatches)
    if loop.needs & {"logp_old", "logp", "entropy_old", "entropy"}:
        with torch.no_grad():
            logp, entropy = forward(torch.arange(len(batch.mask)))
        batch = batch.with_fields(logp_old=logp, entropy_old=entropy)
    step = loop.begin(batch, state)
    for number, rows in enumerate(step.rows):  # whole groups: a group is never in two mini-batches
        cut = torch.arange(len(rows)).split(micro_batch)
        plan = step.plan(number, lambda: forward(rows), lambda: torch.arange(len(rows)) // micro_batch)
        for part in cut:
            logp, entropy = forward(rows[part])
            objective.loss(plan, part, logp, entropy).backward()  # a sum: nobody divides it again
        optimizer.step()
        optimizer.zero_grad()
    return step.prepared.state
