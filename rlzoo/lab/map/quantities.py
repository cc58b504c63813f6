"""What papers claim that their methods change, each an exact function of the policy."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from rlzoo.lab.map.regimes import RegimeSetting

QUANTITIES: Mapping[str, str] = {
    "reward": "expected reward",
    "pass_8": "pass@8",
    "entropy": "entropy of responses (nats)",
    "length_right": "length of right responses",
    "length_wrong": "length of wrong responses",
    "distinct_right": "different right responses among 8",
    "log_rare_right": "log-probability of rare right responses",
}
"""Quantity -> what it is; all are means over prompts."""
SAMPLES = 8


def quantities(setting: RegimeSetting, table: Tensor) -> Tensor:
    """[Q] in the order of `QUANTITIES`, with the table's gradient."""
    log_probs, right = setting.language.log_probs(table), setting.right
    probability, length = log_probs.exp(), setting.language.length.double()
    passed = (probability * right).sum(1)
    rare = right * setting.is_rare
    there = rare.any(1)
    return torch.stack(
        [
            (probability * setting.value).sum(1).mean(),
            (1 - (1 - passed) ** SAMPLES).mean(),
            -(probability * log_probs).sum(1).mean(),
            ((probability * right * length).sum(1) / passed).mean(),
            ((probability * (1 - right) * length).sum(1) / (1 - passed)).mean(),
            ((1 - (1 - probability) ** SAMPLES) * right).sum(1).mean(),
            (probability * rare).sum(1)[there].log().mean(),
        ]
    )


def slopes(setting: RegimeSetting) -> Tensor:
    """[Q, P, T, V + 1, V]: the derivative of each quantity at the current policy; the first is the policy gradient."""
    table = setting.current.clone().requires_grad_()
    values = quantities(setting, table)
    return torch.stack([torch.autograd.grad(value, table, retain_graph=True)[0] for value in values])


@dataclass(frozen=True)
class EntropyChange:
    """What a step does to the sum of the entropies along a response: as predicted, and exactly."""

    predicted: float
    """Minus the covariance of log-probs and the change of logits at each place, as often as it was visited.

    Cui et al., The Entropy Mechanism (arXiv:2505.22617), theorem 1.
    """
    same_places: float
    """Exactly, each place as often as it was visited before."""
    all: float
    """Exactly: responses also come to other places."""


def entropy_change(setting: RegimeSetting, change: Tensor) -> EntropyChange:
    """Of a change of the logits of the current policy."""
    table = setting.current
    log_probs, probability, visits = table.log_softmax(-1), table.softmax(-1), setting.language.visits(table)
    centred = change - (probability * change).sum(-1, keepdim=True)
    covariance = (probability * log_probs * centred).sum(-1)
    before, after = _entropies(table), _entropies(table + change)
    visits_after = setting.language.visits(table + change)
    return EntropyChange(
        predicted=-float((visits * covariance).sum()) / len(table),
        same_places=float((visits * (after - before)).sum()) / len(table),
        all=float((visits_after * after - visits * before).sum()) / len(table),
    )


def _entropies(table: Tensor) -> Tensor:
    log_probs = table.log_softmax(-1)
    return -(log_probs.exp() * log_probs).sum(-1)
