"""The training loop: collect, score, prepare; for each pass and mini-batch plan, differentiate, step; sync."""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, TypeVar

import torch
from accelerate import Accelerator
from torch import Tensor

from objectives import Plan, TokenBatch
from rlzoo.config import TrainConfig
from rlzoo.errors import UserError
from rlzoo.experiment.experiment import Experiment
from rlzoo.experiment.progress import Progress
from rlzoo.model.flops import forward_flops
from rlzoo.model.layout import Responses, balanced, following
from rlzoo.model.policy import Policy, TokenStats
from rlzoo.model.sharding import shard
from rlzoo.model.transfer import sent
from rlzoo.rollout.base import RolloutEngine
from rlzoo.rollout.sampler import GradedRollouts, Sampler
from rlzoo.training.ahead import begun, first_round
from rlzoo.training.collect import Collected, Share, collect, sample
from rlzoo.training.schedule import rate_fraction
from rlzoo.training.tally import Tally, rollout_metrics

_ANY_ROW = torch.zeros(1, dtype=torch.long)
T = TypeVar("T")


def is_to_be_sharded(train: TrainConfig, accelerator: Accelerator) -> bool:
    """One process has nobody to share with."""
    return train.sharding == "fsdp" and accelerator.num_processes > 1


class Trainer:
    """Holds what changes during a run: the policy, its optimiser, and the progress."""

    def __init__(
        self,
        experiment: Experiment,
        accelerator: Accelerator,
        policy: Policy,
        reference: Policy | None,
        sampler: Sampler,
        progress: Progress | None = None,
    ) -> None:
        train = experiment.config.train
        self.experiment, self.config, self.objective = experiment, experiment.config, experiment.objective
        self.accelerator, self.sampler, self.reference = accelerator, sampler, reference
        self.rate_fraction = rate_fraction(train)
        self.sharded = is_to_be_sharded(train, accelerator)
        if self.sharded:
            policy, self.reference = shard(policy), None if reference is None else shard(reference)
        trained = [parameter for parameter in policy.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(
            trained, lr=train.learning_rate, betas=train.betas, weight_decay=train.weight_decay, fused=True
        )
        prepared: Any = (policy, optimizer) if self.sharded else accelerator.prepare(policy, optimizer)
        self.policy, self.optimizer = prepared
        self.progress = progress or Progress()
        self.ahead: GradedRollouts | None = None
        """What was sampled for the step that comes next."""
        self.is_learning = False
        """Amid the updates of a step; otherwise all is as `progress` says."""
        self.seconds: dict[str, float] = {}
        self.positions, self.flops = Counter[str](), Counter[str]()

    @property
    def engine(self) -> RolloutEngine:
        """What samples the responses."""
        return self.sampler.engine

    def step(self) -> tuple[dict[str, Any], Collected]:
        """One rollout step; returns its metrics and rollouts."""
        self.seconds, self.positions, self.flops = {}, Counter(), Counter()
        done, collected = self.progress, self.collect()
        self.seconds.update(collected.seconds)
        learning_rate = self._set_learning_rate(done.step)
        following = self._following(done.step + 1, collected.problems_used)
        self.is_learning = True
        batch, tally, skipped = self.learn(collected)
        with self._timed("generate"):
            self.ahead = None if following is None else replace(following.result(), seconds={})
        updates = done.updates + self.experiment.updates_per_step
        with self._timed("sync"):
            self.engine.sync(self.accelerator.unwrap_model(self.policy), updates)
        self.progress = replace(
            done,
            step=done.step + 1,
            problems_used=collected.problems_used,
            updates=updates,
            updates_skipped=done.updates_skipped + skipped,
            objective_state=batch.state,
        )
        self.is_learning = False
        metrics = {"step": self.progress.step, **rollout_metrics(collected, batch, self.accelerator)}
        metrics |= collected.metrics | tally.metrics(self.accelerator)
        return metrics | {"learning_rate": learning_rate, "updates_skipped": skipped}, collected

    def learn(self, collected: Collected) -> tuple[TokenBatch, Tally, int]:
        """All updates of a step on these rollouts; returns the prepared batch, what was done, and how many it skipped.

        Rollouts of an older policy keep the log-probs and entropies that the engine reported as the old ones.
        """
        here = torch.tensor([collected.sampled_by(self.progress.updates)], device=self.accelerator.device)
        moved = not bool(self.accelerator.gather(here).all())
        needs = self.objective.requires(on_policy=not moved and self.experiment.updates_per_step == 1)
        scored = self.reported(collected, needs) if moved else self.scored(collected, needs)
        batch = self.objective.prepare(scored.with_fields(on_policy=not moved), self.progress.objective_state)
        tally, skipped = Tally(self.objective, collected.rollouts, self.accelerator.device), 0
        for update in self.objective.passes(batch):
            for rows in self.minibatches(update):
                skipped += not self._update(collected, update, rows, moved, tally)
                moved = True
        return batch, tally, skipped

    def collect(self) -> Collected:
        """The rollouts of the step that comes next."""
        done = self.progress
        return collect(self.experiment, self.sampler, self.accelerator, done.step, done.problems_used, self.ahead)

    def _following(self, step: int, problems_used: int) -> Future[GradedRollouts] | None:
        """The first rollouts of the step after this one, sampled by the policy before this one's updates."""
        if not self.config.rollout.ahead:
            return None
        part = first_round(self.config.rollout, problems_used, self.accelerator)
        with self._timed("generate"):
            return begun(lambda: sample(self.experiment, self.sampler, part, step), self.engine.apart)

    # ---- statistics of policies on the rollouts ------------------------------------------------------------------

    def reported(self, collected: Collected, needs: frozenset[str]) -> TokenBatch:
        """Adds what the engine said of the policy that sampled, and the reference's statistics."""
        if "entropy_old" in needs and not self.engine.sees_entropy:
            raise UserError(
                f"objective={self.objective}: a part reads the entropy at rollout time, which rollout.engine="
                f"{self.config.rollout.engine} does not see of an older policy"
            )
        entropy = collected.everywhere(self.accelerator, collected.rollouts.entropy.to(self.accelerator.device))
        batch = self.scored(collected, needs & {"logp_ref"})
        return batch.with_fields(logp_old=batch.logp_sampler, entropy_old=entropy)

    def scored(self, collected: Collected, needs: frozenset[str]) -> TokenBatch:
        """Adds the statistics of the policy and the reference that are among the fields `needs`.

        The policy is the one that sampled, so that its statistics are both the old ones and the current ones.
        """
        fields: dict[str, Tensor | None] = {}
        with self._timed("score"):
            if needs & {"logp_old", "entropy_old", "logp", "entropy"}:
                with_entropy = bool(needs & {"entropy_old", "entropy"})
                logp, entropy = self._statistics(self.policy, collected, with_entropy)
                fields |= dict.fromkeys(needs & {"logp_old", "logp"}, logp)
                fields |= dict.fromkeys(needs & {"entropy_old", "entropy"}, entropy)
            if "logp_ref" in needs:
                assert self.reference is not None
                fields["logp_ref"], _ = self._statistics(self.reference, collected, with_entropy=False)
            if "logp_prompt" in needs:
                fields["logp_prompt"] = self._prompt_statistics(collected)
        return collected.batch.with_fields(**fields)

    @torch.no_grad()
    def _statistics(
        self, policy: Policy, collected: Collected, with_entropy: bool, share: Share | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """[N, T] log-probs and entropies of the batch on every process, of its `share` or all, zero elsewhere."""
        logp = torch.zeros(collected.rollouts.mask.shape, device=self.accelerator.device)
        entropy = torch.zeros_like(logp)
        for part in self._in_step(self._micro_batches(collected, share or collected.share)):
            stats = self._forward(policy, collected, _ANY_ROW if part is None else part.own, with_entropy, "score")
            if part is None:
                continue
            own = sent(part.own, logp.device)
            logp[own, : stats.logp.shape[1]] = stats.logp
            if stats.entropy is not None:
                entropy[own, : stats.logp.shape[1]] = stats.entropy
        everywhere = collected.everywhere(self.accelerator, logp)
        return everywhere, collected.everywhere(self.accelerator, entropy) if with_entropy else None

    @torch.no_grad()
    def _prompt_statistics(self, collected: Collected) -> Tensor:
        """[N] mean log-prob of the tokens of each response's prompt but the first, on every process; 0 if it has one.

        Each prompt is calculated once, as if it were a response to its first token.
        """
        rollouts, device = collected.rollouts, self.accelerator.device
        mean = torch.zeros(len(rollouts.prompts), device=device)
        here = torch.tensor([n for n in rollouts.prompt.unique().tolist() if len(rollouts.prompts[n]) > 1]).long()
        asked = following([rollouts.prompts[n] for n in here.tolist()])
        policy, budget = self.accelerator.unwrap_model(self.policy), self.config.train.tokens_per_micro_batch
        for rows in self._in_step(policy.micro_batches(asked.prompts, asked.lengths.tolist(), budget)):
            if rows is None:
                self._forward(self.policy, collected, _ANY_ROW, False, "score")
                continue
            part = asked.rows(rows)
            stats = self._calculate(self.policy, part, False, "score")
            mean[sent(here[rows], device)] = stats.logp.sum(1) / sent(part.lengths, device)
        return collected.everywhere(self.accelerator, mean[sent(rollouts.prompt, device), None])[:, 0]

    def _forward(
        self, policy: Policy, collected: Collected, rows: Tensor, with_entropy: bool, phase: str
    ) -> TokenStats:
        """Log-probs and entropies [n, t] of some of this process's rows, t their longest response."""
        whole = collected.rollouts if len(collected.rollouts.prompt) else collected.examples[0].rollouts
        return self._calculate(policy, whole.rows(rows).responses(), with_entropy, phase)

    def _calculate(self, policy: Policy, responses: Responses, with_entropy: bool, phase: str) -> TokenStats:
        with self.accelerator.autocast():
            stats: TokenStats = policy(responses, self.config.rollout.temperature, with_entropy)
        self.positions[phase] += stats.positions
        passes = 3 if torch.is_grad_enabled() else 1
        model = self.accelerator.unwrap_model(policy)
        self.flops[phase] += int(passes * forward_flops(model, stats.positions, int(responses.mask.sum())))
        return stats

    def _micro_batches(self, collected: Collected, share: Share) -> list[Share]:
        """A share, cut into micro-batches."""
        part, policy = collected.rollouts.rows(share.own), self.accelerator.unwrap_model(self.policy)
        budget = self.config.train.tokens_per_micro_batch
        return [share[rows] for rows in policy.micro_batches(part.prompt_tokens(), part.lengths.tolist(), budget)]

    def _in_step(self, parts: list[T]) -> list[T | None]:
        """The micro-batches, and None as often as another process has more: sharded models calculate in step."""
        if self.accelerator.num_processes == 1:
            return [*parts]
        count = int(self.accelerator.gather(torch.tensor([len(parts)], device=self.accelerator.device)).max())
        return [*parts, *[None] * (count - len(parts))]

    # ---- one optimiser update ------------------------------------------------------------------------------------

    def minibatches(self, batch: TokenBatch) -> Iterator[Tensor]:
        """Rows of each mini-batch, on the CPU: whole groups, in order."""
        group = batch.require("group", "mini-batches").cpu()
        groups = torch.tensor(list(dict.fromkeys(group.tolist())))
        for part in groups.tensor_split(self.config.train.minibatches_per_step):
            yield torch.isin(group, part).nonzero()[:, 0]

    def _update(self, collected: Collected, batch: TokenBatch, rows: Tensor, moved: bool, tally: Tally) -> bool:
        """Plans and differentiates the mini-batch in some `rows` of the batch and takes a step.

        False if its gradient was not finite.
        """
        share, there = collected.share.among(rows), sent(rows, self.accelerator.device)
        minibatch = batch.rows(there)
        if moved and self.objective.reads_current:
            with self._timed("score"):
                logp, entropy = self._statistics(self.policy, collected, "entropy" in self.objective.needs, share)
                minibatch = minibatch.with_fields(logp=logp[there], entropy=None if entropy is None else entropy[there])
        with self._timed("plan"):
            if self.objective.reads_micro_batches:
                minibatch = minibatch.with_fields(micro_batch=self.micro_batch_numbers(collected, rows)[there])
            plan = self.objective.plan(minibatch.with_fields(on_policy=not moved))
            tally.add_plan(plan, share)
        with self._timed("train"):
            self._differentiate(collected, plan, share, moved, tally)
            return self._take_step(tally)

    def micro_batch_numbers(self, collected: Collected, rows: Tensor) -> Tensor:
        """[N] number of the micro-batch of each row, different on every process, for parts whose scope it is.

        Not of those that run: as in verl, micro-batches here hold about as many tokens each, long and short responses
        mixed, whereas a forward pass is cheapest with responses of one length.
        """
        number = torch.zeros(len(collected.share.own), 1)
        first = self.accelerator.process_index * len(collected.batch.mask)
        own = collected.share.among(rows).own
        part = collected.rollouts.rows(own)
        sizes = [
            len(prompt) + length for prompt, length in zip(part.prompt_tokens(), part.lengths.tolist(), strict=True)
        ]
        balance = balanced(sizes, self.config.train.tokens_per_micro_batch)
        number[own] = first + torch.tensor(balance, dtype=number.dtype)[:, None]
        return collected.everywhere(self.accelerator, sent(number, self.accelerator.device))[:, 0].long()

    def _differentiate(self, collected: Collected, plan: Plan, share: Share, moved: bool, tally: Tally) -> None:
        """Accumulates the gradient of this process's share of the plan.

        Rows whose gradient is zero for certain are left out. Data-parallel wrappers average over processes, hence the
        factor; all make the same number of backward passes.
        """
        with_entropy, device = self.objective.needs_entropy_gradient, self.accelerator.device
        active = plan.active.cpu()[share.batch]
        together = self._in_step(self._micro_batches(collected, share[active])) or [None]
        for i, part in enumerate(together):
            adds_up = self.sharded or i == len(together) - 1  # gradients that wait for the last would be whole ones
            with nullcontext() if adds_up else self.accelerator.no_sync(self.policy):
                if part is None:
                    stats = self._forward(self.policy, collected, _ANY_ROW, with_entropy, "train")
                    self.accelerator.backward(0.0 * stats.logp.sum())
                    continue
                stats = self._forward(self.policy, collected, part.own, with_entropy, "train")
                there = part.on(device)
                rows = plan.rows(there.batch, stats.logp.shape[1])
                loss = self.objective.loss(rows, slice(None), stats.logp, stats.entropy)
                self.accelerator.backward(loss * self.accelerator.num_processes)
            tally.add_rows(rows, there.own, stats.logp.detach(), loss.detach())
            if not moved:
                tally.add_unmoved(there.own, stats.logp.detach())

    def _take_step(self, tally: Tally) -> bool:
        norm = self.accelerator.clip_grad_norm_(self.policy.parameters(), self.config.train.gradient_clip)
        finite = bool(torch.isfinite(norm))
        if finite:
            tally.add_gradient(float(norm))
            self.optimizer.step()
        self.optimizer.zero_grad()
        return finite

    def _set_learning_rate(self, step: int) -> float:
        rate = self.config.train.learning_rate * self.rate_fraction(step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        return rate

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - started
