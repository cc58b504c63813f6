"""Mistakes that one could make in STARE."""

import math
from typing import Any

import torch
from torch import Tensor

from objectives import TokenBatch, largest
from tests.objectives.breaks import Break, always, given, instead, result, with_negative


def gate_open_on_its_target(control: Any) -> Any:
    def wrong(self: Any, batch: TokenBatch, state: Any) -> Any:
        values = dict(control(self, batch, state))
        if values and batch.entropy_old[batch.mask].mean() == self.target_entropy:
            values["on"] = 1.0
        return values

    return wrong


def share_rounded_down(self: Any, batch: TokenBatch) -> Tensor:
    weight = torch.ones_like(batch.advantage)
    state = {"on": 1.0, "amplify": self.amplify, "attenuate": self.attenuate, **batch.state.get(self.name, {})}
    for sign, name in ((1, "amplify"), (-1, "attenuate")):
        candidates = batch.mask & (sign * batch.advantage > 0)
        logp = batch.logp if self.source == "current" else batch.logp_old
        chosen = largest(-logp, candidates, max(1, math.floor(int(candidates.sum()) * self.fraction)))
        weight[chosen] = state[name] if state["on"] else 1.0
    return weight


BREAKS = [
    Break("sign", "least surprising tokens", "surprisal_reweighting", "weight", with_negative("logp_old")),
    Break(
        "sign",
        "gate inverted",
        "surprisal_reweighting",
        "control",
        result(lambda state, *given: {**state, "on": 1 - state["on"]} if state else state),
    ),
    Break("strictness", "gate open on its target", "surprisal_reweighting", "control", gate_open_on_its_target),
    Break(
        "strictness",
        "A = 0 is a candidate",
        "surprisal_reweighting",
        "weight",
        given(lambda batch: (batch.with_fields(advantage=torch.where(batch.advantage == 0, 1e-300, batch.advantage)),)),
    ),
    Break("strictness", "share rounded down", "surprisal_reweighting", "weight", instead(share_rounded_down)),
    Break(
        "denominator",
        "weights renormalised",
        "surprisal_reweighting",
        "weight",
        result(lambda weight, batch: weight / weight[batch.mask].mean()),
    ),
    Break("scope", "set within each micro-batch", "surprisal_reweighting", "scope", always("microbatch")),
    Break("scope", "current surprisal", "surprisal_reweighting", "source", always("current")),
]
