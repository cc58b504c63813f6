"""Metrics of a rollout step: rewards, lengths, and what each part of the objective acted on."""

from collections import Counter
from collections.abc import Sequence

import torch
from accelerate import Accelerator
from torch import Tensor

from objectives import Objective, PartMetrics, Plan, Prepared, TokenBatch, k3, normalise
from rlzoo.model.accelerator import to_device
from rlzoo.rollout.base import Rollouts
from rlzoo.rollout.sampler import GradedRollouts


class StepMetrics:
    """Sums over the updates of a step and this rank's rows, added up over ranks and divided once at its end.

    For each part: the tokens it touched, their share of the advantage mass, their mean probability and entropy when
    they were sampled, and how many of them each other part touched too. Until the end the sums stay on the device.
    """

    def __init__(self, objective: Objective, rollouts: Rollouts, device: torch.device) -> None:
        self.rollouts, self.device, self.sums = rollouts, device, PartMetrics(objective, device, overlaps=True)
        self.sampler_differences = [torch.zeros(0, dtype=torch.float64, device=device)]
        self.gradient_norm, self.updates = 0.0, 0

    def add_plan(self, plan: Plan, places: Tensor, rows: Tensor) -> None:
        """Counts what the plan touched in this rank's rows [n], which have these `places` [n] in the plan."""
        self.updates += 1
        part = plan.rows(to_device(places, self.device), plan.batch.mask.shape[1])
        self.sums.add_plan(part, self._when_sampled(rows))

    def add_rows(self, part: Plan, rows: Tensor, logp: Tensor, loss: Tensor) -> None:
        """Counts what the clip and its modifiers touched in a micro-batch, part of a plan.

        `rows` [n] are its rows of the step, `logp` [n, t] their log-probs.
        """
        self.sums.add_rows(part, logp, loss, self._when_sampled(rows))

    def _when_sampled(self, rows: Tensor) -> dict[str, Tensor]:
        logp, entropy = (to_device(values[rows], self.device) for values in (self.rollouts.logp, self.rollouts.entropy))
        return {"probability": logp.exp(), "entropy": entropy}

    def add_unmoved(self, rows: Tensor, logp: Tensor) -> None:
        """Compares the unmoved policy, `logp` [n, t] of some rows, with what the sampler said of itself."""
        width = logp.shape[1]
        sampler, mask = (
            to_device(values[rows, :width], self.device) for values in (self.rollouts.logp, self.rollouts.mask)
        )
        self.sampler_differences.append((logp.double() - sampler).where(mask, torch.inf).flatten())

    def add_gradient(self, norm: float) -> None:
        """Counts a gradient's norm before clipping."""
        self.gradient_norm += norm

    def metrics(self, accelerator: Accelerator) -> dict[str, float]:
        """Mean loss and gradient norm per update; for each part the above, means only where it touched something."""
        updates, parts = max(1, self.updates), normalise(self.sums.totals(accelerator.reduce))
        loss = parts.pop("loss", 0.0)
        metrics = {"loss": loss / updates, "gradient_norm": self.gradient_norm / updates, **parts}
        differences = torch.cat(self.sampler_differences)
        everywhere = accelerator.gather(accelerator.pad_across_processes(differences, pad_index=torch.inf))
        return metrics | sampler_difference(everywhere[everywhere.isfinite()])


def rollout_metrics(
    rollouts: Rollouts,
    reward: Tensor,
    examples: Sequence[GradedRollouts],
    batch: Prepared,
    accelerator: Accelerator,
    by_reward: bool = True,
) -> dict[str, float]:
    """Rewards, accuracy, length, entropy and outcomes of a step's rollouts, numbers of controllers.

    `reward` [N] is as graded, NaN in rows that are not scored and so not counted; `examples` are what this rank
    graded. With a reference, also KL(policy || reference) per token, by the estimator k3. `by_reward`: whether groups
    whose rewards are equal teach nothing.
    """
    group, advantage = batch.require("group", "metrics"), batch.advantage
    outcomes = Counter(outcome for graded in examples for outcome in graded.outcomes)
    graded = torch.tensor([outcomes["timed_out"], outcomes["failed"]], dtype=torch.float64, device=accelerator.device)
    timed_out, failed = accelerator.reduce(graded, "sum").tolist()
    with_signal = len(group[(advantage != 0).any(1) | (not by_reward)].unique())
    reward = reward[~reward.isnan()] if not reward.isnan().all() else torch.zeros_like(reward)
    return {
        "reward": reward.mean().item(),
        "reward_deviation": reward.std(correction=0).item(),
        "accuracy": batch.require("correct", "metrics").mean().item(),
        "entropy": rollouts.entropy[rollouts.mask].double().sum().item() / rollouts.mask.sum().item(),
        "length": batch.lengths.float().mean().item(),
        "truncated": batch.require("truncated", "metrics").float().mean().item(),
        "groups_without_signal": 1 - with_signal / len(group.unique()),
        "grading_timed_out": timed_out,
        "grading_failed": failed,
        **_distance_to_reference(batch),
        **{f"state/{part}/{name}": value for part, state in batch.state.items() for name, value in state.items()},
    }


def sampling_metrics(
    sampled: Sequence[GradedRollouts], selected: Sequence[TokenBatch], refills: bool
) -> dict[str, float]:
    """Numbers over all responses of all ranks, those of groups that are dropped among them: figures of an environment.

    If the objective `refills`, also the share of dropped groups and of right responses, and the tokens.
    """
    metrics = dict[str, float]()
    if refills:
        kept = sum(count_groups(batch) for batch in selected)
        metrics["groups_dropped"] = 1 - kept / sum(len(graded.problems) for graded in sampled)
        metrics["sampled/accuracy"] = torch.cat([graded.correct for graded in sampled]).mean().item()
        metrics["sampled/tokens"] = sum(int(graded.rollouts.mask.sum()) for graded in sampled)
    responses = sum(len(graded.reward) for graded in sampled)
    for name in sampled[0].figures:
        metrics[name] = sum(graded.figures[name].sum().item() for graded in sampled) / responses
    return metrics


def count_groups(batch: TokenBatch) -> int:
    """How many groups a batch has rows of."""
    return len(batch.require("group", "metrics").unique())


def staleness(rollouts: Rollouts, updates: int) -> dict[str, float]:
    """The mean number of updates between the policy that sampled a token and the one with `updates` updates.

    And the share of tokens for which it is not 0.
    """
    behind = (updates - rollouts.version)[rollouts.mask].double()
    return {"staleness": behind.sum().item() / len(behind), "stale_tokens": (behind > 0).sum().item() / len(behind)}


def _distance_to_reference(batch: TokenBatch) -> dict[str, float]:
    if batch.logp_ref is None or batch.logp_sampler is None:
        return {}
    difference = (batch.logp_ref - batch.logp_sampler)[batch.mask].double()
    return {"reference/kl": k3(difference).mean().item()} if len(difference) else {}


def sampler_difference(difference: Tensor) -> dict[str, float]:
    """How far the trainer's log-probs of the sampled tokens lie from those of the engine that sampled them.

    `difference` [M] is log p_trainer - log p_sampler in nats. Gives the mean and the largest absolute difference per
    token, and KL(sampler || trainer) per token by the estimator k3 of p_trainer / p_sampler.
    """
    if not len(difference):
        return {}
    return {
        "sampler/difference": difference.abs().mean().item(),
        "sampler/largest_difference": difference.abs().max().item(),
        "sampler/kl": k3(difference).mean().item(),
    }
