"""The gradient of an objective on the table, through the loop that training takes."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from objectives import Loop, Objective, derivatives
from rlzoo.lab.map.regimes import RegimeSetting
from rlzoo.lab.map.rollouts import MapRollouts, token_stats


@dataclass(frozen=True, eq=False)
class MapUpdate:
    """What an objective asks for with one batch of rollouts."""

    gradient: Tensor
    """[P, T, V + 1, V], the direction of ascent, summed over passes."""
    push: Tensor
    """[N, T]: minus the derivative of the loss with respect to the log-prob of each token."""
    acted: frozenset[str]
    """Parts that acted on some token."""
    watched: frozenset[str]
    """Parts that can tell."""


def update_of(objective: Objective, rollouts: MapRollouts, setting: RegimeSetting, step: float) -> MapUpdate:
    """The update of a batch; a further pass begins where a step of KL `step` has led that follows the passes before."""
    batch, table = rollouts.batch, setting.current
    gradient, push = torch.zeros_like(table), torch.zeros_like(batch.mask, dtype=table.dtype)
    touched: dict[str, bool] = {}
    taken = Loop(objective, moved=not batch.on_policy).begin(batch)
    for update in taken.updates():
        moved = table + gradient * step_size(setting, gradient, step) if update.number else table
        statistics = partial(token_stats, moved, rollouts.place, rollouts.symbol)
        plan, (logp, entropy) = taken.plan(update, statistics), statistics()
        _, *by_token = derivatives(objective, plan, slice(None), logp, entropy)
        on_logp, on_entropy = (torch.where(batch.mask, values, 0.0) for values in by_token)
        gradient = gradient - on_table(moved, rollouts, on_logp, on_entropy)
        push = push - on_logp
        for name, tokens in objective.touched(plan, slice(None), logp).items():
            touched[name] = touched.get(name, False) or bool(tokens.any())
    return MapUpdate(gradient, push, frozenset(name for name, acts in touched.items() if acts), frozenset(touched))


def on_table(table: Tensor, rollouts: MapRollouts, on_logp: Tensor, on_entropy: Tensor) -> Tensor:
    """Derivatives with respect to tokens' log-probs and entropies, as one with respect to the logits of the table."""
    log_probs = table.log_softmax(-1).flatten(0, -2)
    probability = log_probs.exp()
    entropy = -(probability * log_probs).sum(-1, keepdim=True)
    chosen = torch.zeros_like(log_probs).flatten()
    chosen = chosen.index_add(0, (rollouts.place * table.shape[-1] + rollouts.symbol).flatten(), on_logp.flatten())
    chosen = chosen.view_as(log_probs)
    through_entropy = torch.zeros_like(entropy[:, 0]).index_add(0, rollouts.place.flatten(), on_entropy.flatten())
    result = chosen - probability * chosen.sum(-1, keepdim=True)
    result = result - through_entropy[:, None] * probability * (log_probs + entropy)
    return result.view_as(table)


def step_size(setting: RegimeSetting, direction: Tensor, divergence: float) -> Tensor:
    """The factor of a direction with which KL(old, new) of a response is `divergence`, to second order."""
    length: Tensor = setting.language.natural(setting.current, direction).norm()
    return divergence**0.5 / length.clamp(min=1e-150)
