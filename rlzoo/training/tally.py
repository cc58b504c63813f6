"""What a rollout step did, as numbers: rewards, lengths, and what each part of the objective touched."""

from collections import Counter

import torch
from accelerate import Accelerator
from torch import Tensor

from objectives import Objective, Plan, Prepared, Sums, TokenBatch, k3, shares
from rlzoo.rollout.base import Rollouts
from rlzoo.training.collect import Collected, Share


class Tally:
    """Sums over the updates of a step and this process's rows, added up over processes and divided once at its end.

    For each part: the tokens it touched, their share of the advantage mass, their mean probability and entropy when
    they were sampled, and how many of them each other part touched too. Until the end the sums stay on the device.
    """

    def __init__(self, objective: Objective, rollouts: Rollouts, device: torch.device) -> None:
        self.device, self.sums = device, Sums(objective, device, overlaps=True)
        self.mask, self.logp, self.entropy = (
            tensor.to(device) for tensor in (rollouts.mask, rollouts.logp, rollouts.entropy)
        )
        self.probability = self.logp.exp()
        self.sampler_differences = [torch.zeros(0, dtype=torch.float64, device=device)]
        self.gradient_norm, self.updates = 0.0, 0

    def add_plan(self, plan: Plan, share: Share) -> None:
        """Counts what the plan touched in this process's share of it."""
        there = share.on(self.device)
        self.updates += 1
        rows = plan.rows(there.batch, plan.batch.mask.shape[1])
        self.sums.add_plan(rows, self._when_sampled(there.local))

    def add_rows(self, part: Plan, local: Tensor, logp: Tensor, loss: Tensor) -> None:
        """Counts what the clip and its modifiers touched in a micro-batch, part of a plan.

        `local` [n] are its rows among this process's rollouts, `logp` [n, t] their log-probs.
        """
        self.sums.add_rows(part, logp, loss, self._when_sampled(local))

    def _when_sampled(self, local: Tensor) -> dict[str, Tensor]:
        return {"probability": self.probability[local], "entropy": self.entropy[local]}

    def add_unmoved(self, local: Tensor, logp: Tensor) -> None:
        """Compares the unmoved policy, `logp` [n, t] of some rows, with what the sampler said of itself."""
        width = logp.shape[1]
        difference = logp.double() - self.logp[local][:, :width]
        self.sampler_differences.append(difference.where(self.mask[local][:, :width], torch.inf).flatten())

    def add_gradient(self, norm: float) -> None:
        """Counts a gradient's norm before clipping."""
        self.gradient_norm += norm

    def metrics(self, accelerator: Accelerator) -> dict[str, float]:
        """Mean loss and gradient norm per update; for each part the above, means only where it touched something."""
        updates, parts = max(1, self.updates), shares(self.sums.totals(accelerator.reduce))
        loss = parts.pop("loss", 0.0)
        metrics = {"loss": loss / updates, "gradient_norm": self.gradient_norm / updates, **parts}
        differences = torch.cat(self.sampler_differences)
        everywhere = accelerator.gather(accelerator.pad_across_processes(differences, pad_index=torch.inf))
        return metrics | sampler_difference(everywhere[everywhere.isfinite()])


def rollout_metrics(
    collected: Collected, batch: Prepared, accelerator: Accelerator, by_reward: bool = True
) -> dict[str, float]:
    """Rewards, accuracy, length, entropy and outcomes of a step's rollouts over all processes, numbers of controllers.

    With a reference, also KL(policy || reference) per token, by the estimator k3. `by_reward`: whether groups whose
    rewards are equal teach nothing.
    """
    reward, correct = collected.reward, collected.batch.require("correct", "metrics")
    truncated, mask = collected.batch.require("truncated", "metrics"), collected.batch.mask
    group, advantage = batch.require("group", "metrics"), batch.advantage
    outcomes = Counter(outcome for graded in collected.examples for outcome in graded.outcomes)
    sums = torch.tensor(
        [collected.rollouts.entropy[collected.rollouts.mask].double().sum(), outcomes["timed_out"], outcomes["failed"]],
        dtype=torch.float64,
        device=accelerator.device,
    )
    entropy, timed_out, failed = accelerator.reduce(sums, "sum").tolist()
    with_signal = len(group[(advantage != 0).any(1) | (not by_reward)].unique())
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
        **{f"state/{part}/{name}": value for part, state in batch.state.items() for name, value in state.items()},
    }


def staleness(collected: Collected, updates: int, accelerator: Accelerator) -> dict[str, float]:
    """How old the policy was that sampled a token: the mean number of its updates since, of which `updates` are done.

    And the share of tokens of which it is not 0, both over the tokens of all processes.
    """
    behind = (updates - collected.rollouts.version)[collected.rollouts.mask].double()
    sums = torch.tensor([behind.sum(), (behind > 0).sum(), len(behind)], dtype=torch.float64, device=accelerator.device)
    age, stale, tokens = accelerator.reduce(sums, "sum").tolist()
    return {"staleness": age / tokens, "stale_tokens": stale / tokens}


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
