"""What a run has at a checkpoint but for its optimiser: the rollouts that come next, and their scores."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TypeVar

import torch
from accelerate import Accelerator
from torch import Tensor

from objectives import Objective, TokenBatch
from rlzoo.experiment.experiment import Experiment
from rlzoo.experiment.progress import Progress
from rlzoo.experiment.teacher import teacher_prompt
from rlzoo.model.flops import forward_flops
from rlzoo.model.layout import Responses, balanced, following
from rlzoo.model.policy import Policy, TokenStats
from rlzoo.model.sharding import resharded
from rlzoo.model.transfer import sent
from rlzoo.rollout.base import RolloutEngine
from rlzoo.rollout.begun import Begun
from rlzoo.rollout.phases import span
from rlzoo.rollout.sampler import Environment, GradedRollouts
from rlzoo.training.arithmetic import POLICY, StepScoring, step_scoring
from rlzoo.training.collect import Collected, Share, collect
from rlzoo.training.partial import collect_partial

ANY_ROW = torch.zeros(1, dtype=torch.long)
"""What a process without rows of its own calculates so that sharded models are in step."""
T = TypeVar("T")


class Scorer:
    """Collects rollouts and scores them: the statistics of policy, reference and teacher on their tokens."""

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
        self.experiment, self.config, self.objective = experiment, experiment.config, experiment.objective
        self.accelerator, self.sampler = accelerator, sampler
        self.policy, self.reference = policy, reference
        self.teacher = policy if teacher is None else teacher
        self.progress = progress or Progress()
        self.ahead: GradedRollouts | None = None
        """What was sampled for the step that comes next."""
        self.begun: Begun | None = None
        """What is sampled in part, of steps that come; None before the first step."""
        self.one_step: Callable[[], AbstractContextManager[None]] = nullcontext
        """In which a step is taken: what may be lost in one, such as the time of graders, is counted there."""
        self.seconds: dict[str, float] = {}
        self.positions, self.flops = Counter[str](), Counter[str]()

    @property
    def engine(self) -> RolloutEngine:
        """What samples the responses."""
        return self.sampler.engine

    def collect(self, further: frozenset[str] = frozenset()) -> Collected:
        """The rollouts of the step that comes next, with `further` fields of turns than the objective reads."""
        done, task = self.progress, self.config.task
        where = self.experiment, self.sampler, self.accelerator
        if self.config.rollout.partial_tokens:
            collected = collect_partial(*where, done.step, done.problems_used, self.begun, further)
        else:
            collected = collect(*where, done.step, done.problems_used, self.ahead, further)
        if not task.teacher_prompt:
            return collected
        problems = [problem for graded in collected.examples for problem in graded.problems]
        informed = [replace(problem, prompt=teacher_prompt(task, problem)) for problem in problems]
        return replace(collected, teacher_prompts=self.sampler.prompts(informed))

    def has_moved(self, collected: Collected) -> bool:
        """Whether some process has rollouts of an older policy."""
        here = torch.tensor([collected.sampled_by(self.progress.updates)], device=self.accelerator.device)
        return not bool(self.accelerator.gather(here).all())

    def step_scoring(self, collected: Collected, objective: Objective) -> StepScoring:
        """Where the statistics come from that an objective's updates on these rollouts read."""
        return step_scoring(self.config, objective, self.has_moved(collected))

    def as_reported(self, collected: Collected, batch: TokenBatch, fields: frozenset[str]) -> TokenBatch:
        """The batch of these rollouts with what the engine reported as the old statistics, of the `fields` that are."""
        if "logp_old" in fields:
            batch = batch.with_fields(logp_old=batch.logp_sampler)
        if "entropy_old" in fields:
            entropy = collected.rollouts.entropy.to(self.accelerator.device)
            batch = batch.with_fields(entropy_old=collected.everywhere(self.accelerator, entropy))
        return batch

    def scored(self, collected: Collected, needs: frozenset[str], observed: bool = False) -> TokenBatch:
        """Adds the statistics of the policy, the reference and the teacher that are among the fields `needs`.

        The policy is the one that sampled, so that its statistics are both the old ones and the current ones. If
        `observed`, it is also asked for those of the tokens that an environment wrote.
        """
        fields: dict[str, Tensor | None] = {}
        with self._timed("score"):
            if needs & POLICY:
                with_entropy, with_squares = bool(needs & {"entropy_old", "entropy"}), "sum_pi_squared_old" in needs
                logp, entropy, squares = self._statistics(
                    self.policy, collected, with_entropy, None, with_squares, observed
                )
                fields |= dict.fromkeys(needs & {"logp_old", "logp"}, logp)
                fields |= dict.fromkeys(needs & {"entropy_old", "entropy"}, entropy)
                fields |= dict.fromkeys(needs & {"sum_pi_squared_old"}, squares)
            if "logp_ref" in needs:
                assert self.reference is not None
                fields["logp_ref"] = self._statistics(self.reference, collected, with_entropy=False)[0]
            if "logp_teacher" in needs:
                fields["logp_teacher"] = self._statistics(self.teacher, _as_the_teacher_reads(collected), False)[0]
            if "logp_prompt" in needs:
                fields["logp_prompt"] = self._prompt_statistics(collected)
        return collected.batch.with_fields(**fields)

    def current(self, collected: Collected, rows: Tensor, share: Share) -> tuple[Tensor, Tensor | None]:
        """[M, T] log-probs, and entropies if they are read, of some `rows` of the batch under the policy as it is now.

        `share` is this process's part of these.
        """
        with self._timed("score"):
            logp, entropy, _ = self._statistics(self.policy, collected, "entropy" in self.objective.needs, share)
            there = sent(rows, logp.device)
            return logp[there], None if entropy is None else entropy[there]

    @torch.no_grad()
    def _statistics(
        self,
        policy: Policy,
        collected: Collected,
        with_entropy: bool,
        share: Share | None = None,
        with_squares: bool = False,
        observed: bool = False,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """[N, T] log-probs, entropies and sums of squares of the batch on every process, zero outside `share`."""
        logp = torch.zeros(collected.rollouts.mask.shape, device=self.accelerator.device)
        entropy, squares = (torch.zeros_like(logp) if asked else None for asked in (with_entropy, with_squares))
        for part in self._in_step(self._micro_batches(collected, share or collected.share)):
            rows = ANY_ROW if part is None else part.local
            stats = self._forward(policy, collected, rows, with_entropy, "score", with_squares, observed)
            if part is None:
                continue
            local = sent(part.local, logp.device)
            for whole, values in ((logp, stats.logp), (entropy, stats.entropy), (squares, stats.squares)):
                if whole is not None and values is not None:
                    whole[local, : values.shape[1]] = values
        if policy is not self.policy:
            resharded(policy)
        logp = collected.everywhere(self.accelerator, logp)
        entropy, squares = (
            None if values is None else collected.everywhere(self.accelerator, values) for values in (entropy, squares)
        )
        return logp, entropy, squares

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
                self._forward(self.policy, collected, ANY_ROW, False, "score")
                continue
            part = asked.rows(rows)
            stats = self._calculate(self.policy, part, False, "score")
            mean[sent(here[rows], device)] = stats.logp.sum(1) / sent(part.lengths, device)
        return collected.everywhere(self.accelerator, mean[sent(rollouts.prompt, device)])

    def _forward(
        self,
        policy: Policy,
        collected: Collected,
        rows: Tensor,
        with_entropy: bool,
        phase: str,
        with_squares: bool = False,
        observed: bool = False,
    ) -> TokenStats:
        """Log-probs and entropies [n, t] of some of this process's rows, t their longest response."""
        whole = collected.rollouts if len(collected.rollouts.prompt) else collected.examples[0].rollouts
        observed = observed or (phase == "train" and self.objective.learns_observations)
        return self._calculate(policy, whole.rows(rows).responses(observed), with_entropy, phase, with_squares)

    def _calculate(
        self, policy: Policy, responses: Responses, with_entropy: bool, phase: str, with_squares: bool = False
    ) -> TokenStats:
        with self.accelerator.autocast():
            stats: TokenStats = policy(responses, self.config.rollout.temperature, with_entropy, with_squares)
        self.positions[phase] += stats.positions
        passes = 3 if torch.is_grad_enabled() else 1
        model = self.accelerator.unwrap_model(policy)
        self.flops[phase] += int(passes * forward_flops(model, stats.positions, int(responses.mask.sum())))
        return stats

    def _micro_batches(self, collected: Collected, share: Share) -> list[Share]:
        """A share, cut into micro-batches."""
        part, policy = collected.rollouts.rows(share.local), self.accelerator.unwrap_model(self.policy)
        budget = self.config.train.tokens_per_micro_batch
        return [share[rows] for rows in policy.micro_batches(part.prompt_tokens(), part.lengths.tolist(), budget)]

    def _in_step(self, parts: list[T]) -> list[T | None]:
        """The micro-batches, and None as often as another process has more: sharded models calculate in step."""
        if self.accelerator.num_processes == 1:
            return [*parts]
        count = int(self.accelerator.gather(torch.tensor([len(parts)], device=self.accelerator.device)).max())
        return [*parts, *[None] * (count - len(parts))]

    def micro_batch_numbers(self, collected: Collected, rows: Tensor) -> Tensor:
        """[M] number of the micro-batch of each of some rows of the batch, different on every process.

        Not of those that run: as in verl, micro-batches here hold about as many tokens each, long and short responses
        mixed, whereas a forward pass is cheapest with responses of one length.
        """
        number = torch.zeros(len(collected.share.local))
        first = self.accelerator.process_index * len(collected.batch.mask)
        local = collected.share.among(rows).local
        part = collected.rollouts.rows(local)
        sizes = [
            len(prompt) + length for prompt, length in zip(part.prompt_tokens(), part.lengths.tolist(), strict=True)
        ]
        balance = balanced(sizes, self.config.train.tokens_per_micro_batch)
        number[local] = first + torch.tensor(balance, dtype=number.dtype)
        everywhere = collected.everywhere(self.accelerator, sent(number, self.accelerator.device)).long()
        return everywhere[sent(rows, everywhere.device)]

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        """Counts the seconds of a phase, less those of phases within it."""
        started, before = time.perf_counter(), sum(self.seconds.values())
        with span(phase):
            yield
        within = sum(self.seconds.values()) - before
        self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - started - within


def _as_the_teacher_reads(collected: Collected) -> Collected:
    """The rollouts behind the prompts that the teacher reads."""
    if collected.teacher_prompts is None:
        return collected
    return replace(collected, rollouts=replace(collected.rollouts, prompts=collected.teacher_prompts))
