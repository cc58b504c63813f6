"""What the stages do to a batch, with the account of it: shaped rewards, weighed advantages, passes and bounds."""

import math
from collections.abc import Iterable, Sequence

from objectives.account import Account, Action
from objectives.batch import Batch, Prepared, TokenBatch
from objectives.kinds import Bounds, Penalty, Reward, Weight, in_working_order
from objectives.lazy import Tensor, torch
from objectives.part import Part


def require_read(batch: TokenBatch, parts: Iterable[Part]) -> None:
    """Raises ObjectiveError for the first field that a part reads and the batch lacks."""
    for part in parts:
        batch.require_all(part.needs if batch.on_policy else part.needs | part.reads_once_moved, part.name)


def shaped(batch: Batch, shapers: Sequence[Reward]) -> Batch:
    """The batch whose reward [N], or [N, T], these parts have shaped."""
    require_read(batch, shapers)
    if batch.reward is None:
        return batch
    present, account = batch.blank_outside(), batch.account
    reward = batch.reward.to(torch.promote_types(batch.reward.dtype, torch.float32))
    for part in shapers:
        shaping = part.shaping(present)
        account = account.entered(part.name, Action.REWARD, shaping)
        if max(reward.dim(), shaping.dim()) == 2:
            reward, shaping = batch.like_tokens(reward), batch.like_tokens(shaping)
        reward = reward + shaping
    return batch.with_fields(reward=reward, account=account)


def weighted(batch: Prepared, weights: Sequence[Weight]) -> Prepared:
    advantage, account = batch.advantage, batch.account
    for part in in_working_order(weights):
        weight = part.weight(batch)
        account = account.entered(part.name, Action.ADD if part.additive else Action.WEIGH, weight)
        advantage = advantage + weight if part.additive else advantage * weight
    return batch.with_fields(advantage=torch.where(batch.mask, advantage, 0.0), account=account)


def with_pass_entered(update: Prepared, schedule: str) -> Prepared:
    for name, tokens in (("policy", update.policy_mask), ("penalty", update.penalty_mask)):
        update = update if tokens is None else update.entered(schedule, Action.PASS, tokens, name)
    return update


def with_bounds_entered(batch: Prepared, part: Part, bounds: Bounds, names: Sequence[str]) -> Account:
    """The account with the bounds of these names that `part` has set."""
    account = batch.account
    for name in names:
        bound = getattr(bounds, name)
        if isinstance(bound, Tensor):
            account = account.entered(
                part.name, Action.BOUND, bound if not bound.dim() else bound.expand(batch.mask.shape), name
            )
        elif math.isfinite(bound):
            account = account.entered(part.name, Action.BOUND, torch.tensor(bound, dtype=torch.float64), name)
    return account


def penalty_action(penalty: Penalty) -> Action:
    """By which the account knows the coefficients of a penalty."""
    if penalty.learns_observations:
        return Action.OBSERVATION
    return Action.CHOICE if penalty.chooses else Action.PENALTY
