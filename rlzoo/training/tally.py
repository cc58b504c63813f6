"""What a rollout step did, as numbers: rewards, lengths, and what each part of the objective touched."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import torch
from accelerate import Accelerator
from torch import Tensor

from objectives import Objective, Plan, TokenBatch
from rlzoo.rollout.base import Rollouts
from rlzoo.training.collect import Collected, Share


class Tally:
    """Sums over the updates of a step and this process's rows, added up over processes and divided once at its end.

    For each part: the tokens it touched, their share of the advantage mass, their mean probability and entropy when
    they were sampled, and how many of them each other part touched too. Until the end the sums stay on the device.
    """

    def __init__(self, objective: Objective, rollouts: Rollouts, device: torch.device) -> None:
        self.objective, self.device = objective, device
        self.mask, self.logp, self.entropy = (
            tensor.to(device) for tensor in (rollouts.mask, rollouts.logp, rollouts.entropy)
        )
        self.probability = self.logp.exp()
        self.sampler_differences = [torch.zeros(0, dtype=torch.float64, device=device)]
        self.sums: dict[str, Tensor] = defaultdict(lambda: torch.zeros((), dtype=torch.float64, device=device))
        self.gradient_norm, self.updates = 0.0, 0

    def add_plan(self, plan: Plan, share: Share) -> None:
        """Counts what the plan touched in this process's share of it."""
        width, there = plan.batch.mask.shape[1], share.on(self.device)
        own = plan.rows(there.batch, width)
        self.updates += 1
        self.sums["tokens"] += own.batch.mask.sum()
        self.sums["mass"] += own.batch.require("advantage", "tally").abs().sum()
        self._count(own.touched, list(own.touched), own, there.own)
        none = own.policy_coefficient[:0]  # every process has the same sums, even without rows
        self.add_rows(own.rows(slice(0), width), there.own[:0], none, none.sum())

    def add_rows(self, part: Plan, own: Tensor, logp: Tensor, loss: Tensor) -> None:
        """Counts what the clip and its modifiers touched in a micro-batch, part of a plan.

        `own` [n] are its rows among this process's rollouts, `logp` [n, t] their log-probs.
        """
        self.sums["loss"] += loss
        touched = self.objective.touched(part, slice(None), logp)
        self._count(touched, [name for name in touched if name not in part.touched], part, own)

    def add_unmoved(self, own: Tensor, logp: Tensor) -> None:
        """Compares the unmoved policy, `logp` [n, t] of some rows, with what the sampler said of itself."""
        width = logp.shape[1]
        difference = logp.double() - self.logp[own][:, :width]
        self.sampler_differences.append(difference.where(self.mask[own][:, :width], torch.inf).flatten())

    def add_gradient(self, norm: float) -> None:
        """Counts a gradient's norm before clipping."""
        self.gradient_norm += norm

    def _count(self, touched: Mapping[str, Tensor], names: Sequence[str], part: Plan, own: Tensor) -> None:
        advantage = part.batch.require("advantage", "tally").abs()
        probability, entropy = self.probability[own], self.entropy[own]
        counted: set[str] = set()
        for name in names:
            tokens, width = touched[name], touched[name].shape[1]
            measures = {"mass": advantage, "probability": probability, "entropy": entropy}
            self.sums[f"{name}/tokens"] += tokens.sum()
            for measure, values in measures.items():
                self.sums[f"{name}/{measure}"] += (values[:, :width] * tokens).sum(dtype=torch.float64)
            counted.add(name)
            for other in touched.keys() - counted:
                both = (tokens & touched[other]).sum()
                self.sums[f"{name}/overlap/{other}"] += both
                self.sums[f"{other}/overlap/{name}"] += both

    def metrics(self, accelerator: Accelerator) -> dict[str, float]:
        """Mean loss and gradient norm per update; for each part the above, means only where it touched something."""
        names = sorted(self.sums)
        sums = torch.stack([self.sums[name] for name in names])
        totals = dict(zip(names, accelerator.reduce(sums, "sum").tolist(), strict=True))
        whole = {"tokens": max(1.0, totals.pop("tokens", 0.0)), "mass": totals.pop("mass", 0.0) or 1.0}
        updates = max(1, self.updates)
        metrics = {"loss": totals.pop("loss", 0.0) / updates, "gradient_norm": self.gradient_norm / updates}
        for name, value in totals.items():
            part, _, measure = name.partition("/")
            divisor = whole.get(measure, totals[f"{part}/tokens"])
            if divisor:
                metrics[f"touched/{name}"] = value / divisor
        own = torch.cat(self.sampler_differences)
        everywhere = accelerator.gather(accelerator.pad_across_processes(own, pad_index=torch.inf))
        return metrics | sampler_difference(everywhere[everywhere.isfinite()])


def rollout_metrics(collected: Collected, batch: TokenBatch, accelerator: Accelerator) -> dict[str, float]:
    """Rewards, accuracy, length, entropy and outcomes of a step's rollouts over all processes.

    With a reference, also KL(policy || reference) per token, by the estimator k3.
    """
    reward, correct = collected.reward, collected.batch.require("correct", "metrics")
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
        "reward_deviation": reward.std(correction=0).item(),
        "accuracy": correct.mean().item(),
        "entropy": entropy / mask.sum().item(),
        "length": collected.batch.lengths.float().mean().item(),
        "truncated": truncated.float().mean().item(),
        "groups_without_signal": 1 - with_signal / len(group.unique()),
        "grading_timed_out": timed_out,
        "grading_failed": failed,
        **_distance_to_reference(batch),
    }


def _distance_to_reference(batch: TokenBatch) -> dict[str, float]:
    if batch.logp_ref is None or batch.logp_sampler is None:
        return {}
    difference = (batch.logp_ref - batch.logp_sampler)[batch.mask].double()
    return {"reference/kl": (difference.expm1() - difference).mean().item()} if len(difference) else {}


def sampler_difference(difference: Tensor) -> dict[str, float]:
    """How far the trainer's log-probs of the sampled tokens lie from those of the engine that sampled them.

    `difference` [M] is log p_trainer - log p_sampler in nats. Gives the mean and the largest absolute difference per
    token, and KL(sampler || trainer) per token by the estimator k3, r - 1 - log r with r = p_trainer / p_sampler
    (Schulman, "Approximating KL Divergence", 2020).
    """
    if not len(difference):
        return {}
    return {
        "sampler/difference": difference.abs().mean().item(),
        "sampler/largest_difference": difference.abs().max().item(),
        "sampler/kl": (difference.expm1() - difference).mean().item(),
    }
