"""The digest of what an objective does: rewriting its code does not change it, another meaning does."""

from collections.abc import Iterator, Mapping
from functools import cache

import torch
from torch import Tensor

from objectives import Loop, Objective, TokenBatch, Writer, derivatives, lots
from rlzoo.source import digest, is_ours

_GROUPS, _LENGTH = 5, 24
_STEPS = ((False, 0.1), (True, 0.1), (True, 3.0))
"""Whether the policy has moved, and the largest entropy in nats."""
_RELATIVE = 1e-6
_OFFSET = 0.1234567
"""Added before rounding, so that simple fractions do not lie between two numbers."""


def meaning(objective: Objective) -> str:
    """Of its gradients for log-prob and entropy on a fixed float64 batch, before and after the policy has moved.

    They are rounded to a millionth of the largest, which is far above what two versions of torch differ by. Empty where
    a part from outside draws anew at each call or cannot calculate in float64: its source says what it is.
    """
    if all(is_ours(type(part).__module__) for part in objective.parts):
        return meaning_of_ours(objective)
    try:
        first, again = _meaning(objective), _meaning(objective)
    except Exception:  # whatever a part of somebody else's may raise
        return ""
    return first if first == again else ""


@cache
def meaning_of_ours(objective: Objective) -> str:
    """Once in a process, in which only a user's parts may change."""
    return _meaning(objective)


def _meaning(objective: Objective) -> str:
    size = max(_GROUPS, objective.minimum_group, objective.learning_group)
    return digest(map(_rounded, _gradients(objective, size)))


def _rounded(gradient: Tensor) -> str:
    largest = gradient.abs().max().item()
    steps = gradient / (largest or 1.0) / _RELATIVE + _OFFSET
    return f"{largest:.6e} {steps.round().long().tolist()}"


def _gradients(objective: Objective, size: int) -> Iterator[Tensor]:
    """[N, T] for each step, pass, and of both; controllers go from step to step."""
    state: Mapping[str, Mapping[str, float]] = {}
    for moved, uncertain in _STEPS:
        batch = _batch(size, moved, uncertain)
        step = Loop(objective, moved=moved).begin(batch, state)
        state = step.prepared.state
        for update in step.updates():
            plan = step.plan(update)
            logp, entropy = (plan.batch.require(name, "meaning") for name in ("logp", "entropy"))
            yield from derivatives(objective, plan, slice(None), logp, entropy)[1:]


def _batch(size: int, moved: bool, uncertain: float) -> TokenBatch:
    """Groups that are mixed in different shares, all right, and all wrong; every field that an objective may read."""
    rows = _GROUPS * size
    group = torch.arange(_GROUPS).repeat_interleave(size)
    place = torch.arange(rows) % size
    correct = (place <= group - 1).double()
    correct[group == _GROUPS - 1] = 1.0
    length = 2 + torch.arange(rows) * 5 % (_LENGTH - 1)
    mask = torch.arange(_LENGTH) < length[:, None]
    logp = -10 * _irregular(rows, 0.618034).square() - 1e-3  # some are rarer than any part asks for
    entropy = uncertain * _irregular(rows, 0.414214)
    change = 2 * _irregular(rows, 0.732051) - 1
    change = torch.where(torch.arange(_LENGTH) % 3 == 0, 3 * change, 0.4 * change)  # some move beyond every bound
    return TokenBatch(
        mask=mask,
        length=length,
        group=group,
        reward=correct,
        rewards=torch.stack([correct, (length % 3).double()], 1),
        correct=correct,
        truncated=length == _LENGTH,
        max_length=_LENGTH,
        logp_old=logp,
        entropy_old=entropy,
        sum_pi_squared_old=(2 * logp).exp() + (1 - logp.exp()).square() / 2,
        logp=(logp + change).clamp(max=-1e-3) if moved else logp,
        entropy=entropy * (1 + 0.2 * change) if moved else entropy,
        logp_sampler=logp + 0.1 * change,
        logp_ref=1.1 * logp,
        logp_teacher=0.9 * logp,
        logp_prompt=logp[:, 0],
        writer=torch.where(mask, Writer.POLICY, Writer.ENVIRONMENT),
        turn=(torch.arange(_LENGTH) // 4).repeat(rows, 1),
        turn_reward=_of_turns(torch.arange(rows * _LENGTH // 4) * 3 % 7 / 4, rows).double(),
        turn_state=_of_turns(torch.arange(rows * _LENGTH // 4) * 5 % 3, rows),
        lot=lots(group, _LENGTH, seed=0),
        micro_batch=torch.arange(rows) // size,
    )


def _of_turns(values: Tensor, rows: int) -> Tensor:
    """[N, T] a value for each turn, four tokens of each."""
    return values.view(rows, -1).repeat_interleave(4, 1)


def _irregular(rows: int, step: float) -> Tensor:
    """[N, T] numbers between 0 and 1 without pattern, the same with every version of torch."""
    return (torch.arange(1, rows * _LENGTH + 1, dtype=torch.float64) * step).frac().view(rows, _LENGTH)
