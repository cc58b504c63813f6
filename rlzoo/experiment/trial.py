"""Tries an objective on a small batch before anything is started, so that a part that fails costs no evaluation."""

import inspect

import torch

from objectives import Objective, ObjectiveError, Part, TokenBatch
from rlzoo.config import RolloutConfig
from rlzoo.errors import UserError, one_line

GROUPS, LENGTH = 4, 6


def try_objective(objective: Objective, rollout: RolloutConfig) -> None:
    """Raises UserError, naming the part, what it is to give and what it reads, if it fails or makes what is not finite.

    Both before and after the policy has moved, with the fields of the batch that are declared, as training has it.
    """
    problem = _problem(objective, rollout)
    if problem is None:
        return
    part = next((part for part in objective.parts if _works_without(part, objective, rollout)), None)
    if part is None:
        raise UserError(f"objective={objective} fails on a small batch: {problem}")
    reads = ", ".join(sorted(part.needs | part.reads_once_moved)) or "no field"
    raise UserError(
        f"objective={objective}: the part {part.name} fails on a small batch: {problem}. {_wanted(part)}; it asks for "
        f"{reads} (`reads` names the fields of the batch that it gets, others may be None)"
    )


def _problem(objective: Objective, rollout: RolloutConfig) -> str | None:
    """What goes wrong; None if nothing does. Raises ObjectiveError for what the zoo itself has a word for."""
    for on_policy in (True, False):
        try:
            for gradient in _gradients(objective, rollout, on_policy):
                if not bool(gradient.isfinite().all()):
                    return "its gradient is not finite"
        except ObjectiveError:
            raise
        except Exception as error:  # whatever a part of somebody else's may raise
            return one_line(f"{type(error).__name__}: {error}")
    return None


def _works_without(part: Part, objective: Objective, rollout: RolloutConfig) -> bool:
    try:
        return _problem(objective.without(part.name), rollout) is None
    except ObjectiveError:
        return False


def _gradients(objective: Objective, rollout: RolloutConfig, on_policy: bool) -> list[torch.Tensor]:
    """Those of every pass over the batch."""
    needs = objective.requires(on_policy)
    batch, logp, entropy = _batch(rollout)
    further = {"logp_old": logp, "entropy_old": entropy, "logp": logp, "entropy": entropy}
    further |= {"logp_ref": 1.1 * logp, "logp_prompt": logp[:, 0]}
    batch = batch.with_fields(**{name: value for name, value in further.items() if name in needs})
    prepared = objective.prepare(batch.with_fields(on_policy=on_policy))
    if objective.reads_micro_batches:
        prepared = prepared.with_fields(micro_batch=torch.arange(len(batch.mask)) // 2)
    moved = (logp if on_policy else 0.9 * logp).requires_grad_()
    gradients: list[torch.Tensor | None] = []
    for update in objective.passes(prepared):
        plan = objective.plan(update)
        loss = objective.loss(plan, slice(None), moved, entropy)
        objective.touched(plan, slice(None), moved.detach())
        gradients += torch.autograd.grad(loss, moved, allow_unused=True)
    return [gradient for gradient in gradients if gradient is not None]


def _batch(rollout: RolloutConfig) -> tuple[TokenBatch, torch.Tensor, torch.Tensor]:
    """Groups that are mixed, all right and all wrong; log-probs and entropies [N, T] of their tokens."""
    size = rollout.responses_per_prompt
    rows, draw = GROUPS * size, torch.Generator().manual_seed(0)
    group = torch.arange(GROUPS).repeat_interleave(size)
    reward = (torch.arange(rows) % 2).float()
    reward[group == GROUPS - 1], reward[group == GROUPS - 2] = 1.0, 0.0
    length = torch.randint(1, min(LENGTH, rollout.max_response_tokens) + 1, (rows,), generator=draw)
    mask = torch.arange(LENGTH) < length[:, None]
    logp = torch.rand(rows, LENGTH, generator=draw).clamp(1e-3, 1 - 1e-3).log()
    entropy = -logp * torch.rand(rows, LENGTH, generator=draw)
    truncated = length == rollout.max_response_tokens
    batch = TokenBatch(
        mask=mask,
        length=length,
        group=group,
        reward=reward,
        correct=reward,
        truncated=truncated,
        max_length=rollout.max_response_tokens,
        logp_sampler=logp,
    )
    return batch, logp, entropy


def _wanted(part: Part) -> str:
    """What the methods of its own are to give, as their kind says it."""
    kinds = [kind for kind in type(part).__mro__[1:] if kind.__module__ == "objectives.kinds"]
    said = [
        f"{name} is to give {(inspect.getdoc(getattr(kind, name)) or '').splitlines()[0].rstrip('.')}"
        for kind in kinds[:1]
        for name in vars(type(part))
        if inspect.isfunction(vars(kind).get(name)) and inspect.getdoc(getattr(kind, name))
    ]
    return "; ".join(said) or f"It is a {type(part).__mro__[1].__name__}"
