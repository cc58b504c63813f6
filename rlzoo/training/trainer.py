"""The training loop: collect, score, prepare; for each pass and mini-batch plan, differentiate, step; sync."""

from collections import Counter
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from accelerate import Accelerator

from objectives import Advantage, Plan, Prepared, Step, Update
from rlzoo.experiment.experiment import Experiment
from rlzoo.experiment.progress import Progress
from rlzoo.model.deterministic import deterministic
from rlzoo.model.policy import Policy
from rlzoo.model.sharding import add_up_copies, is_sharded, resharded
from rlzoo.rollout.sampler import Environment, GradedRollouts
from rlzoo.training.adamw import make_optimizer, set_rate, take_step
from rlzoo.training.ahead import begun, first_round
from rlzoo.training.collect import Collected, Share, sample
from rlzoo.training.exchange import redistributed
from rlzoo.training.schedule import rate_fraction
from rlzoo.training.scoring import ANY_ROW, Scorer
from rlzoo.training.tally import Tally, rollout_metrics, staleness


class Trainer(Scorer):
    """Holds what changes during a run: the policy, its optimiser, and the progress."""

    def __init__(
        self,
        experiment: Experiment,
        accelerator: Accelerator,
        policy: Policy,
        reference: Policy | None,
        sampler: Environment,
        progress: Progress | None = None,
        teacher: Policy | None = None,
    ) -> None:
        train = experiment.config.train
        self.rate_fraction = rate_fraction(train)
        self.sharded = is_sharded(policy)
        trained = {name: weights for name, weights in resharded(policy).named_parameters() if weights.requires_grad}
        self.trained = [*trained]
        """Names of the parameters that the optimiser has, by number."""
        optimizer = make_optimizer(train, [*trained.values()])
        prepared: Any = (policy, optimizer) if self.sharded else accelerator.prepare(policy, optimizer)
        policy, self.optimizer = prepared
        super().__init__(experiment, accelerator, policy, reference, sampler, progress, teacher)
        self.is_learning = False
        """Amid the updates of a step; otherwise all is as `progress` says."""

    def step(self) -> tuple[dict[str, Any], Collected]:
        """One rollout step; returns its metrics and rollouts."""
        self.seconds, self.positions, self.flops = {}, Counter(), Counter()
        done, collected = self.progress, self.collect()
        self.seconds.update(collected.seconds)
        learning_rate = self._set_learning_rate(done.step)
        following = self._following(done.step + 1, collected.problems_used)
        self.is_learning = True
        with deterministic(self.config.train.deterministic):
            batch, tally, skipped = self.learn(collected)
        if following is not None:
            with self._timed("generate"):
                self.ahead = replace(following.result(), seconds={})
        updates = done.updates + self.experiment.updates_per_step
        with self._timed("sync"):
            self.engine.sync(self.accelerator.unwrap_model(self.policy), updates)
        self.begun = collected.begun
        self.progress = replace(
            done,
            step=done.step + 1,
            problems_used=collected.problems_used,
            updates=updates,
            updates_skipped=done.updates_skipped + skipped,
            objective_state=batch.state,
        )
        self.is_learning = False
        by_reward = bool(self.objective.the(Advantage).needs)
        metrics = {"step": self.progress.step, **rollout_metrics(collected, batch, self.accelerator, by_reward)}
        metrics |= collected.metrics | tally.metrics(self.accelerator)
        if self.config.rollout.may_be_stale:
            metrics |= staleness(collected, done.updates, self.accelerator)
        return metrics | {"learning_rate": learning_rate, "updates_skipped": skipped}, collected

    def learn(self, collected: Collected) -> tuple[Prepared, Tally, int]:
        """All updates of a step on these rollouts; returns the prepared batch, what was done, how many it skipped."""
        collected = self._redistributed(collected)
        scoring = self.step_scoring(collected, self.objective)
        batch = self.as_reported(collected, self.scored(collected, scoring.scored), scoring.reported)
        step = scoring.loop.begin(batch, self.progress.objective_state)
        tally = Tally(self.objective, collected.rollouts, self.accelerator.device)
        taken = [self._update(collected, step, update, tally) for update in step.updates()]
        return step.prepared, tally, taken.count(False)

    def _following(self, step: int, problems_used: int) -> Future[GradedRollouts] | None:
        """The first rollouts of the step after this one, sampled by the policy before this one's updates."""
        if not self.config.rollout.ahead:
            return None
        part = first_round(self.config.rollout, problems_used, self.accelerator)
        with self._timed("generate"):
            return begun(lambda: sample(self.experiment, self.sampler, part, step), self.engine.apart)

    def _redistributed(self, collected: Collected) -> Collected:
        """The rollouts, dealt to the processes so that they have nearly equal work in each mini-batch."""
        if self.accelerator.num_processes == 1:
            return collected
        with self._timed("plan"):
            batch, minibatches = self.objective.select(collected.batch), self.config.train.minibatches_per_step
            longest_tree = self.accelerator.unwrap_model(self.policy).longest_tree
            return redistributed(collected, batch, minibatches, longest_tree, self.accelerator)

    # ---- one optimiser update ------------------------------------------------------------------------------------

    def _update(self, collected: Collected, step: Step, update: Update, tally: Tally) -> bool:
        """Plans and differentiates a mini-batch and takes a step; False if its gradient was not finite."""
        rows = step.rows[update.part]
        share = collected.share.among(rows)
        with self._timed("plan"):
            plan = step.plan(
                update,
                lambda: self.current(collected, rows, share),
                lambda: self.micro_batch_numbers(collected, rows),
            )
            tally.add_plan(plan, share)
        with self._timed("train"):
            self._differentiate(collected, plan, share, tally, update.moved)
            return self._take_step(tally)

    def _differentiate(self, collected: Collected, plan: Plan, share: Share, tally: Tally, moved: bool) -> None:
        """Accumulates the gradient of this process's share of the plan of a policy that has `moved` since the rollouts.

        Rows whose gradient is zero for certain are left out. Data-parallel wrappers average over processes, hence the
        factor; all make the same number of backward passes.
        """
        with_entropy, device = self.objective.needs_entropy_gradient, self.accelerator.device
        active = plan.active.cpu()[share.batch]
        together = self._in_step(self._micro_batches(collected, share[active])) or [None]
        for i, part in enumerate(together):
            is_last = i == len(together) - 1
            add_up_copies(self.policy, is_last)
            adds_up = self.sharded or is_last  # gradients that wait for the last would be whole ones
            with nullcontext() if adds_up else self.accelerator.no_sync(self.policy):
                if part is None:
                    stats = self._forward(self.policy, collected, ANY_ROW, with_entropy, "train")
                    self.accelerator.backward(0.0 * stats.logp.sum())
                    continue
                stats = self._forward(self.policy, collected, part.local, with_entropy, "train")
                there = part.on(device)
                rows = plan.rows(there.batch, stats.logp.shape[1])
                loss = self.objective.loss(rows, slice(None), stats.logp, stats.entropy)
                self.accelerator.backward(loss * self.accelerator.num_processes)
            tally.add_rows(rows, there.local, stats.logp.detach(), loss.detach())
            if not moved:
                tally.add_unmoved(there.local, stats.logp.detach())

    def _take_step(self, tally: Tally) -> bool:
        norm = self.accelerator.clip_grad_norm_(self.policy.parameters(), self.config.train.gradient_clip)
        finite = bool(torch.isfinite(norm))
        if finite:
            tally.add_gradient(float(norm))
            take_step(self.optimizer)
        self.optimizer.zero_grad()
        return finite

    def _set_learning_rate(self, step: int) -> float:
        rate = self.config.train.learning_rate * self.rate_fraction(step)
        set_rate(self.optimizer, rate)
        return rate
