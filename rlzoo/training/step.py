"""One training step: sample, grade, select; score, prepare; plan, differentiate, step; sync.

Every rank knows every row of a step, token ids included. The work of a rank is a list of row numbers, and what it
calculates of its own rows is added up over all ranks.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from objectives import (
    OF_TURNS,
    POLICY_FIELDS,
    Advantage,
    Loop,
    Objective,
    Plan,
    Prepared,
    Step,
    TokenBatch,
    Writer,
    concatenated,
    random_keys,
    step_scoring,
)
from rlzoo.errors import UserError
from rlzoo.experiment.experiment import Experiment, step_seed, teacher_prompt
from rlzoo.experiment.progress import Progress
from rlzoo.model.accelerator import deterministic
from rlzoo.model.layout import balanced, to_device
from rlzoo.model.policy import Policy
from rlzoo.model.sharding import add_up_copies, is_sharded, resharded
from rlzoo.rollout import engine_class
from rlzoo.rollout.base import RolloutEngine, Rollouts, concatenate
from rlzoo.rollout.sampler import GradedRollouts, Sampler, span, uneven_rewards
from rlzoo.tasks.base import Problem
from rlzoo.training.rows import (
    DUMMY_ROW,
    ForwardPasses,
    StepMetrics,
    count_groups,
    gather_rollouts,
    grade_share,
    problem_share,
    rank_of_rows,
    rewards_by_function,
    rollout_metrics,
    round_seed,
    sampling_metrics,
    sampling_of,
    scored_groups,
    staleness,
)
from rlzoo.training.stale_rollouts import PartialRollouts, numbered_problems, sample_in_background, sample_parts


@dataclass(frozen=True)
class StepRollouts:
    """The rollouts of a step, the same on every rank: N rows in the order of their problems."""

    batch: TokenBatch
    """What objectives read of them, on the device, after stages 1 and 2."""
    rollouts: Rollouts
    """Their tokens, on the CPU, as wide as the batch."""
    rank: Tensor
    """[N] the rank that scores and trains each row, on the CPU."""
    reward: Tensor
    """[N] as graded, on the device; NaN where no function of `task.reward` has a say."""
    examples: Sequence[GradedRollouts]
    """What this rank sampled and graded, by round; groups that were dropped are among it."""
    problems_used: int
    metrics: Mapping[str, float]
    teacher_prompts: Sequence[Sequence[int]] | None = None
    """What the teacher reads in place of each of the rollouts' prompts; None: these."""
    waiting: PartialRollouts | None = None
    """Groups that later steps go on with."""

    def is_of(self, version: int) -> bool:
        """Whether the policy with that many updates sampled all tokens."""
        return bool((self.rollouts.version == version)[self.rollouts.mask].all())

    def places(self, rank: int, rows: Tensor) -> Tensor:
        """[m] the places among some `rows` [M] of those that a rank trains."""
        return (self.rank[rows] == rank).nonzero()[:, 0]


class Trainer:
    """Holds what changes during a run: the policy, its optimiser, and the progress.

    With `learns=False` it has no optimiser: it collects the next rollouts and scores them.
    """

    def __init__(
        self,
        experiment: Experiment,
        accelerator: Accelerator,
        policy: Policy,
        reference: Policy | None,
        sampler: Sampler,
        progress: Progress | None = None,
        teacher: Policy | None = None,
        learns: bool = True,
    ) -> None:
        self.experiment, self.config, self.objective = experiment, experiment.config, experiment.objective
        self.accelerator, self.sampler = accelerator, sampler
        self.may_be_stale = self.config.rollout.may_be_stale
        self.sees_entropy = engine_class(self.config.rollout.engine).sees_entropy
        self.sharded, train = is_sharded(policy), self.config.train
        if learns:
            trained = [weights for weights in resharded(policy).parameters() if weights.requires_grad]
            options: Any = {"betas": tuple(train.betas), "weight_decay": train.weight_decay}
            optimizer = torch.optim.AdamW(trained, lr=train.learning_rate, fused=True, **options)
            prepared: Any = (policy, optimizer) if self.sharded else accelerator.prepare(policy, optimizer)
            policy, self.optimizer = prepared
        self.policy, self.reference = policy, reference
        self.teacher = policy if teacher is None else teacher
        self.passes = ForwardPasses(accelerator, policy, self.config.rollout.temperature, train.tokens_per_micro_batch)
        self.progress = progress or Progress()
        self.ahead: GradedRollouts | None = None
        """What this rank sampled for the step that comes next."""
        self.waiting: PartialRollouts | None = None
        """What is sampled in part, of steps that come; None before the first step."""
        self.one_step: Callable[[int], AbstractContextManager[None]] = lambda step: nullcontext()
        """Context of a step, in which the graders count the time that they lose."""
        self.is_learning = False
        """Amid the updates of a step; otherwise all is as `progress` says."""
        self.seconds: dict[str, float] = {}

    @property
    def engine(self) -> RolloutEngine:
        """What samples the responses."""
        return self.sampler.engine

    def step(self) -> tuple[dict[str, Any], StepRollouts]:
        """One rollout step; returns its metrics and rollouts."""
        self.seconds = {}
        self.passes.positions.clear()
        self.passes.flops.clear()
        done, collected = self.progress, self.collect()
        learning_rate = self._set_learning_rate(done.step)
        following = self._sample_ahead(done.step + 1, collected.problems_used)
        self.is_learning = True
        with deterministic() if self.config.train.deterministic else nullcontext():
            batch, learnt, skipped = self.learn(collected)
        if following is not None:
            with self._timed("generate"):
                self.ahead = replace(following.result(), seconds={})
        updates = done.updates + self.experiment.updates_per_step
        with self._timed("sync"):
            self.engine.sync(self.accelerator.unwrap_model(self.policy), updates)
        self.waiting = collected.waiting
        self.progress = replace(
            done,
            step=done.step + 1,
            problems_used=collected.problems_used,
            updates=updates,
            updates_skipped=done.updates_skipped + skipped,
            objective_state=batch.state,
        )
        self.is_learning = False
        given, by_reward = (
            (collected.rollouts, collected.reward, collected.examples),
            self.objective.the(Advantage).needs,
        )
        metrics = {"step": self.progress.step, **rollout_metrics(*given, batch, self.accelerator, bool(by_reward))}
        metrics |= {**collected.metrics, **learnt.metrics(self.accelerator)}
        if self.may_be_stale:
            metrics |= staleness(collected.rollouts, done.updates)
        return metrics | {"learning_rate": learning_rate, "updates_skipped": skipped}, collected

    def learn(self, collected: StepRollouts) -> tuple[Prepared, StepMetrics, int]:
        """All updates of a step on these rollouts; returns the prepared batch, what was done, how many it skipped."""
        loop, scored, reported = self.scoring(collected, self.objective)
        batch = self.with_reported(collected, self.scored(collected, scored), reported)
        step = loop.begin(batch, self.progress.objective_state)
        metrics = StepMetrics(self.objective, collected.rollouts, self.accelerator.device)
        taken = [self._update(collected, step, number, metrics) for number in range(len(loop))]
        return step.prepared, metrics, taken.count(False)

    # ---- sample, grade, select -----------------------------------------------------------------------------------

    def collect(self, extra: frozenset[str] = frozenset()) -> StepRollouts:
        """The rollouts of the step that comes next: sampled until `rollout.prompts_per_step` groups are selected.

        Without a part that refills, that is one round; the first one may have been sampled ahead. The batch has the
        fields of turns that the objective reads, and those `extra` ones that the rollouts have. Raises UserError if
        `rollout.max_refills` rounds more do not do.
        """
        if self.config.rollout.partial_tokens:
            return self._collect_parts(extra)
        config, start = self.config.rollout, self.progress.problems_used
        used, wanted = start, config.prompts_per_step
        own, sampled, selected = list[GradedRollouts](), list[GradedRollouts](), list[TokenBatch]()
        while (missing := wanted - sum(map(count_groups, selected))) > 0:
            if len(sampled) > config.max_refills:
                raise UserError(
                    f"objective={self.config.objective}: of {used - start} prompts only {wanted - missing} gave groups "
                    f"with both right and wrong answers, after rollout.max_refills={config.max_refills} refills; "
                    f"begin in another output= with more, with easier or harder problems, or without dynamic_sampling"
                )
            # as many as will probably give the groups that are missing
            count = min(wanted, math.ceil(missing * (used - start) / max(1, wanted - missing))) if sampled else wanted
            first = None if sampled else self.ahead
            own.append(first or self._sample(used, count, self.progress.step, len(sampled)))
            sampled.append(gather_rollouts(own[-1], self.experiment.problems(used, count), self.accelerator))
            selected.append(self._select(sampled[-1], range(used, used + count), extra))
            used += count
        return self._joined(own, sampled, selected, range(start, used), used)

    def _collect_parts(self, extra: frozenset[str]) -> StepRollouts:
        """The rollouts of a step that are sampled a part at a time; groups of earlier steps come before others."""
        started, done, where = time.perf_counter(), self.progress, (self.experiment, self.sampler, self.accelerator)
        chosen, waiting, used, metrics = sample_parts(*where, done.step, done.problems_used, self.waiting)
        sampled, problems = time.perf_counter(), numbered_problems(self.experiment, chosen.problems)
        with span("grade"):
            own = grade_share(chosen.rollouts, problems, self.sampler, self.accelerator)
        own = replace(own, seconds={"generate": sampled - started, "grade": time.perf_counter() - sampled})
        whole = gather_rollouts(own, problems, self.accelerator)
        collected = self._joined([own], [whole], [self._select(whole, chosen.problems, extra)], chosen.problems, used)
        return replace(collected, metrics={**collected.metrics, **metrics}, waiting=waiting)

    def _sample(self, start: int, count: int, step: int, number: int = 0) -> GradedRollouts:
        """A round's responses to this rank's share of `count` problems, graded; ranks do not wait for each other."""
        rollout, share = self.config.rollout, problem_share(count, self.accelerator)
        stream = self.experiment.problems(start, len(share) * self.accelerator.num_processes)
        sampling, seed = sampling_of(rollout, rollout.max_response_tokens), round_seed(self.experiment, step, number)
        return self.sampler([stream[i] for i in share], rollout.responses_per_prompt, sampling, seed, share)

    def _sample_ahead(self, step: int, problems_used: int) -> Future[GradedRollouts] | None:
        """The first rollouts of the step after this one, sampled by the policy before this one's updates."""
        if not self.config.rollout.ahead:
            return None
        count = self.config.rollout.prompts_per_step
        with self._timed("generate"):
            return sample_in_background(lambda: self._sample(problems_used, count, step), self.engine.apart)

    def _select(self, graded: GradedRollouts, numbers: Sequence[int], extra: frozenset[str]) -> TokenBatch:
        """The batch of a round after stages 1 and 2, without dropped groups if others are sampled in their place.

        `numbers` are those of the problems in the stream, and so those of the groups.
        """
        rollouts, read = graded.rollouts, self.objective.needs & OF_TURNS | extra
        scored, rewards = scored_groups(rollouts.prompt, graded), rewards_by_function(self.objective, graded)
        tensors = {
            "mask": rollouts.mask & scored[:, None],
            "length": rollouts.mask.sum(1),
            "group": torch.tensor(numbers)[rollouts.prompt],
            "reward": graded.reward,
            "rewards": graded.reward[:, None] if rewards is None else rewards,
            "correct": graded.correct,
            "truncated": rollouts.truncated,
            "logp_sampler": rollouts.logp,
            "writer": rollouts.writers().where(scored[:, None], int(Writer.NONE)),
            **{name: graded.credit[name] for name in sorted(read & graded.credit.keys())},
        }
        fields: dict[str, Any] = {name: tensor.to(self.accelerator.device) for name, tensor in tensors.items()}
        weights = None if graded.rewards is None else tuple(self.config.task.reward_weights) or None
        batch = TokenBatch(**fields, reward_weights=weights, max_length=self.config.rollout.max_response_tokens)
        selected = self.objective.select(batch.with_fields(random_key=self._random_keys(batch)))
        if not self.objective.refills:
            return selected
        group = selected.require("group", "collect")
        chosen = selected.require("selected", "collect") & scored.to(group.device)
        return selected.rows(torch.isin(group, group[chosen]))

    def _random_keys(self, batch: TokenBatch) -> Tensor:
        seed = step_seed(self.config.seed, self.progress.step, "lots of tokens")
        return random_keys(batch.require("group", "collect"), batch.mask.shape[1], seed)

    def _joined(
        self,
        own: Sequence[GradedRollouts],
        sampled: Sequence[GradedRollouts],
        selected: Sequence[TokenBatch],
        numbers: Sequence[int],
        problems_used: int,
    ) -> StepRollouts:
        """The groups that a step takes of its rounds: sampled by this rank, by all ranks, and selected.

        `numbers` are those of all problems that were sampled.
        """
        if len(counts := {batch.require("rewards", "collect").shape[1] for batch in selected}) > 1:
            raise UserError(uneven_rewards(counts))
        batch, rollouts = concatenated(selected), concatenate([graded.rollouts for graded in sampled])
        group, groups = batch.require("group", "collect"), torch.tensor(numbers)[rollouts.prompt]
        used = torch.tensor([*dict.fromkeys(group.tolist())][: self.config.rollout.prompts_per_step])
        batch, kept = batch.rows(torch.isin(group, used.to(group.device))), torch.isin(groups, used)
        rollouts = rollouts.rows(kept).widened(batch.mask.shape[1])
        for name in ("generate", "grade"):
            self.seconds[name] = self.seconds.get(name, 0.0) + sum(graded.seconds.get(name, 0.0) for graded in own)
        with self._timed("plan"):
            longest_tree = self.accelerator.unwrap_model(self.policy).longest_tree
            sizes = self.config.train.minibatches_per_step, self.accelerator.num_processes, longest_tree
            rank = rank_of_rows(batch, rollouts, *sizes)
        return StepRollouts(
            batch=batch.with_fields(random_key=self._random_keys(batch)),
            rollouts=rollouts,
            rank=rank,
            reward=torch.cat([it.reward.where(it.is_scored, torch.nan) for it in sampled])[kept].to(group.device),
            examples=own,
            problems_used=problems_used,
            metrics=sampling_metrics(sampled, selected, self.objective.refills),
            teacher_prompts=self._teacher_prompts([problem for graded in sampled for problem in graded.problems]),
        )

    def _teacher_prompts(self, problems: Sequence[Problem]) -> list[list[int]] | None:
        if not (template := self.config.task.teacher_prompt):
            return None
        return self.sampler.prompts([replace(it, prompt=teacher_prompt(template, it)) for it in problems])

    # ---- score ---------------------------------------------------------------------------------------------------

    def scoring(self, collected: StepRollouts, objective: Objective) -> tuple[Loop, frozenset[str], frozenset[str]]:
        """What `step_scoring` says of an objective's updates on these rollouts."""
        minibatches, moved = self.config.train.minibatches_per_step, not collected.is_of(self.progress.updates)
        by_engine = self.config.rollout.old_logp == "engine"
        return step_scoring(objective, minibatches, moved, by_engine, self.sees_entropy)

    def scored(self, collected: StepRollouts, needs: frozenset[str], observed: bool = False) -> TokenBatch:
        """The batch with the statistics of the policy, the reference and the teacher that are among the fields `needs`.

        The policy is the one that sampled, so that its statistics are both the old ones and the current ones. If
        `observed`, it is also asked for those of the tokens that an environment wrote.
        """
        rollouts, rows, fields = collected.rollouts, torch.arange(len(collected.rank)), dict[str, Tensor | None]()
        own = collected.places(self.accelerator.process_index, rows)
        with self._timed("score"):
            if needs & POLICY_FIELDS:
                asked = bool(needs & {"entropy_old", "entropy"}), "sum_pi_squared_old" in needs, observed
                logp, entropy, squares = self.passes.statistics(self.policy, rollouts, rows, own, *asked)
                fields |= dict.fromkeys(needs & {"logp_old", "logp"}, logp)
                fields |= dict.fromkeys(needs & {"entropy_old", "entropy"}, entropy)
                fields |= dict.fromkeys(needs & {"sum_pi_squared_old"}, squares)
            if "logp_ref" in needs:
                assert self.reference is not None
                fields["logp_ref"] = self.passes.statistics(self.reference, rollouts, rows, own)[0]
            if "logp_teacher" in needs:
                read = replace(rollouts, prompts=collected.teacher_prompts or rollouts.prompts)
                fields["logp_teacher"] = self.passes.statistics(self.teacher, read, rows, own)[0]
            if "logp_prompt" in needs:
                fields["logp_prompt"] = self.passes.prompt_statistics(rollouts, own)
        return collected.batch.with_fields(**fields)

    def with_reported(self, collected: StepRollouts, batch: TokenBatch, fields: frozenset[str]) -> TokenBatch:
        """The batch with what the engine reported as the old statistics, of the `fields` that are."""
        if "logp_old" in fields:
            batch = batch.with_fields(logp_old=batch.logp_sampler)
        if "entropy_old" in fields:
            batch = batch.with_fields(entropy_old=collected.rollouts.entropy.to(self.accelerator.device))
        return batch

    # ---- plan, differentiate, step -------------------------------------------------------------------------------

    def _update(self, collected: StepRollouts, step: Step, number: int, metrics: StepMetrics) -> bool:
        """Plans and differentiates a mini-batch and takes a step; False if its gradient was not finite."""
        rows = step.rows[number]
        own = collected.places(self.accelerator.process_index, rows)

        def current() -> tuple[Tensor, Tensor | None]:
            with self._timed("score"):
                with_entropy = "entropy" in self.objective.needs
                return self.passes.statistics(self.policy, collected.rollouts, rows, own, with_entropy)[:2]

        with self._timed("plan"):
            plan = step.plan(number, current, lambda: self.micro_batch_numbers(collected, rows))
            metrics.add_plan(plan, own, rows[own])
        with self._timed("train"):
            self._differentiate(collected.rollouts, plan, rows, own, metrics, step.loop.has_moved(number))
            return self._take_step(metrics)

    def micro_batch_numbers(self, collected: StepRollouts, rows: Tensor) -> Tensor:
        """[M] number of the micro-batch of each of some rows, different on every rank.

        Not of those that run: as in verl, micro-batches here hold about as many tokens each, long and short responses
        mixed, whereas a forward pass is cheapest with responses of one length.
        """
        number, part = torch.zeros(len(rows), dtype=torch.long), collected.rollouts.rows(rows)
        sizes = [len(prompt) + n for prompt, n in zip(part.prompt_tokens(), part.lengths.tolist(), strict=True)]
        for rank in range(self.accelerator.num_processes):
            places = collected.places(rank, rows)
            parts = balanced([sizes[place] for place in places.tolist()], self.config.train.tokens_per_micro_batch)
            number[places] = rank * len(collected.rank) + torch.tensor(parts, dtype=torch.long)
        return to_device(number, self.accelerator.device)

    def _differentiate(
        self, rollouts: Rollouts, plan: Plan, rows: Tensor, own: Tensor, metrics: StepMetrics, moved: bool
    ) -> None:
        """Accumulates the gradient of this rank's part of a plan of `rows` [M]; its places there are `own`.

        `moved`: the policy is another one than sampled. Rows whose gradient is zero for certain are left out.
        Data-parallel wrappers average over ranks, hence the factor; all make the same number of backward passes.
        """
        with_entropy, observed = self.objective.needs_entropy_gradient, self.objective.learns_observations
        active = own[plan.active.cpu()[own]]
        together = self.passes.in_step(self.passes.micro_batches(rollouts, rows, active)) or [None]
        for i, part in enumerate(together):
            is_last = i == len(together) - 1
            if self.sharded:
                add_up_copies(self.policy, is_last)
            adds_up = self.sharded or is_last  # gradients that wait for the last would be whole ones
            chosen = DUMMY_ROW if part is None else rows[part]
            with nullcontext() if adds_up else self.accelerator.no_sync(self.policy):
                stats = self.passes.forward(self.policy, rollouts, chosen, "train", with_entropy, observed=observed)
                if part is None:
                    self.accelerator.backward(0.0 * stats.logp.sum())
                    continue
                planned = plan.rows(to_device(part, self.accelerator.device), stats.logp.shape[1])
                loss = self.objective.loss(planned, slice(None), stats.logp, stats.entropy)
                self.accelerator.backward(loss * self.accelerator.num_processes)
            metrics.add_rows(planned, chosen, stats.logp.detach(), loss.detach())
            if not moved:
                metrics.add_unmoved(chosen, stats.logp.detach())

    def _take_step(self, metrics: StepMetrics) -> bool:
        norm = self.accelerator.clip_grad_norm_(self.policy.parameters(), self.config.train.gradient_clip)
        finite = bool(torch.isfinite(norm))
        if finite:
            metrics.add_gradient(float(norm))
            self.optimizer.step()
        self.optimizer.zero_grad()
        return finite

    def _set_learning_rate(self, step: int) -> float:
        rate = self.config.train.rate_at(step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        return rate

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        """Counts the seconds of a phase, less those of phases within it."""
        started, before = time.perf_counter(), sum(self.seconds.values())
        with span(phase):
            yield
        within = sum(self.seconds.values()) - before
        self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - started - within
