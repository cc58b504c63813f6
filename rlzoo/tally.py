"""What a rollout step did, as numbers: rewards, lengths, and what each part of the objective touched."""

from collections import Counter, defaultdict

import torch
from accelerate import Accelerator
from torch import Tensor

from objectives import Objective, Plan, TokenBatch
from rlzoo.collect import Collected


class Tally:
    """Sums over the updates of a step, divided once at its end.

    `shared` sums are the same on every process (plans); `own` sums are of this process's rows (micro-batches).
    """

    def __init__(self) -> None:
        self.shared: dict[str, float] = defaultdict(float)
        self.own: dict[str, float] = defaultdict(float)
        self.updates = 0

    def add_plan(self, plan: Plan) -> None:
        """Counts the tokens that stages 1 to 7 touched in a mini-batch and their share of the advantage mass."""
        advantage = plan.batch.require("advantage", "tally").abs()
        self.updates += 1
        self.shared["tokens"] += plan.batch.mask.sum().item()
        self.shared["mass"] += advantage.sum().item()
        for name, touched in plan.touched.items():
            self.shared[f"{name}/tokens"] += touched.sum().item()
            self.shared[f"{name}/mass"] += advantage[touched].sum().item()

    def add_rows(self, objective: Objective, plan: Plan, rows: Tensor, logp: Tensor, loss: float) -> None:
        """Counts the tokens that the clip and its modifiers touched in a micro-batch."""
        self.own["loss"] += loss
        advantage = plan.batch.require("advantage", "tally")[rows][:, : logp.shape[1]].abs()
        for name, touched in objective.touched(plan, rows, logp).items():
            if name not in plan.touched:
                self.own[f"{name}/tokens"] += touched.sum().item()
                self.own[f"{name}/mass"] += advantage[touched].sum().item()

    def add_gradient(self, norm: float) -> None:
        """Counts a gradient's norm before clipping."""
        self.shared["gradient_norm"] += norm

    def metrics(self, accelerator: Accelerator) -> dict[str, float]:
        """Token fraction and advantage share per part, mean loss and gradient norm per update."""
        names = sorted(self.own)
        sums = torch.tensor([self.own[name] for name in names], dtype=torch.float64, device=accelerator.device)
        own = dict(zip(names, accelerator.reduce(sums, "sum").tolist(), strict=True))
        totals = {**self.shared, **own}
        tokens, mass = max(1, totals.pop("tokens")), totals.pop("mass") or 1.0
        means = {name: totals.pop(name, 0.0) / max(1, self.updates) for name in ("loss", "gradient_norm")}
        shares = {
            f"touched/{name}": value / (tokens if name.endswith("/tokens") else mass)
            for name, value in sorted(totals.items())
        }
        return means | shares


def rollout_metrics(collected: Collected, batch: TokenBatch, accelerator: Accelerator) -> dict[str, float]:
    """Reward, accuracy, length, entropy and outcomes of a step's rollouts over all processes."""
    reward, correct = collected.batch.require("reward", "metrics"), collected.batch.require("correct", "metrics")
    truncated, mask = collected.batch.require("truncated", "metrics"), collected.batch.mask
    group, advantage = batch.require("group", "metrics"), batch.require("advantage", "metrics")
    outcomes = Counter(outcome for graded in collected.examples for outcome in graded.outcomes)
    sums = torch.tensor(
        [collected.rollouts.entropy[collected.rollouts.mask].double().sum(), outcomes["timed_out"], outcomes["failed"]],
        dtype=torch.float64,
        device=accelerator.device,
    )
    entropy, timed_out, failed = accelerator.reduce(sums, "sum").tolist()
    with_signal = len(group[(advantage != 0).any(1)].unique())
    return {
        "reward": reward.mean().item(),
        "accuracy": correct.mean().item(),
        "entropy": entropy / mask.sum().item(),
        "length": mask.sum(1).float().mean().item(),
        "truncated": truncated.float().mean().item(),
        "groups_without_signal": 1 - with_signal / len(group.unique()),
        "grading_timed_out": timed_out,
        "grading_failed": failed,
    }


def sampler_difference(logp: Tensor, logp_sampler: Tensor, mask: Tensor) -> dict[str, float]:
    """How far the trainer's log-probs of the sampled tokens lie from those of the engine that sampled them.

    `logp` and `logp_sampler` are [N, T] in nats, `mask` [N, T] is True where they count. Gives the mean and the largest
    absolute difference per token, and KL(sampler || trainer) per token by the estimator k3, r - 1 - log r with
    r = p_trainer / p_sampler (Schulman, "Approximating KL Divergence", 2020).
    """
    difference = (logp - logp_sampler)[mask].double()
    return {
        "sampler/difference": difference.abs().mean().item(),
        "sampler/largest_difference": difference.abs().max().item(),
        "sampler/kl": (difference.expm1() - difference).mean().item(),
    }
