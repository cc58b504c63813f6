"""Mistakes that one could make in KPO."""

from typing import Any

import torch
from torch import Tensor

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, instead, log_ratio, result


def kpo_with(seen_only: bool = True, detached: bool = True) -> Any:
    def ratio(self: Any, rows: TokenBatch, logp: Tensor) -> Tensor:
        change = log_ratio(rows, logp if not detached else logp.detach())
        state, gain = torch.zeros_like(logp[:, 0]), torch.zeros_like(logp[:, 0])
        states = []
        for t in range(logp.shape[1]):
            there = rows.mask[:, t]
            following = (gain + self.q) / (gain + self.q + 1)
            observed = torch.where(there, change[:, t], 0.0)
            filtered = state + following * (observed - state)
            gain = torch.where(there | (not seen_only), following, gain)
            state = torch.where(there | (not seen_only), filtered, state)
            states.append(state)
        step = logp - logp.detach() if detached else torch.zeros_like(logp)
        return (torch.stack(states, 1) + step).exp()

    return instead(ratio)


BREAKS = [
    Break("sign", "old policy over the current one", "kalman_ratio", "ratio", result(lambda r, *given: 1 / r)),
    Break("bound", "lower width of PPO", "clip", "low", always(0.2)),
    Break("bound", "no filter", "kalman_ratio", "q", always(1e9)),
    Break("scope", "tools pull the filter to 0", "kalman_ratio", "ratio", kpo_with(seen_only=False)),
    Break("detach", "gradient through the filter", "kalman_ratio", "ratio", kpo_with(detached=False)),
]
