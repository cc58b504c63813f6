"""What the stages do to a batch, with the account of it: shaped rewards, weighed advantages, passes and bounds."""

import math
from collections.abc import Iterable, Sequence

from objectives.account import Account, Action
from objectives.batch import Batch, Prepared, TokenBatch
from objectives.kinds import Bounds, Modifier, Penalty, Reward, Surrogate, Weight, in_working_order
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
    reward, account = batch.reward.to(torch.promote_types(batch.reward.dtype, torch.float32)), batch.account
    if not shapers:
        return batch.with_fields(reward=reward)
    present = batch.blank_outside()
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
    account = update.account
    for name, tokens in (("policy", update.policy_mask), ("penalty", update.penalty_mask)):
        account = account if tokens is None else account.entered(schedule, Action.PASS, tokens, name)
    return update if account is update.account else update.with_fields(account=account)


def with_bounds_entered(batch: Prepared, changes: Iterable[tuple[Surrogate | Modifier, Bounds]]) -> Account:
    """The account with the bounds that each part has set, as it left them."""
    account = batch.account
    for part, bounds in changes:
        for name in sorted(part.sets) if isinstance(part, Modifier) else ("low", "high", "cap"):
            bound = getattr(bounds, name)
            if isinstance(bound, Tensor) and bound.dim():
                bound = bound.expand(batch.mask.shape)
            if isinstance(bound, Tensor) or math.isfinite(bound):
                account = account.entered(part.name, Action.BOUND, bound, name)
    return account


def penalty_action(penalty: Penalty) -> Action:
    """By which the account knows the coefficients of a penalty."""
    if penalty.learns_observations:
        return Action.OBSERVATION
    return Action.CHOICE if penalty.chooses else Action.PENALTY
