"""The rollouts of one step: sampled, graded, selected, refilled, and known to every process."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from objectives import OF_TURNS, Selected, TokenBatch, concatenated, lots
from rlzoo.config import RolloutConfig
from rlzoo.errors import UserError
from rlzoo.experiment.experiment import Experiment, step_seed
from rlzoo.model.transfer import sent
from rlzoo.rollout.base import Rollouts, Sampling, concatenate, widened
from rlzoo.rollout.begun import Begun
from rlzoo.rollout.sampler import Environment, GradedRollouts, uneven_rewards
from rlzoo.tasks.base import Problem

THROWN_AWAY = -1
"""The group of responses that only make the processes' shares equal."""


@dataclass(frozen=True)
class Share:
    """The part of this process in a batch of all processes.

    Its row i is row `local[i]` of the process's rollouts and row `batch[i]` of the batch, or of a plan made of some of
    the batch's rows. Both are in ascending order, and on the CPU unless a device was asked for.
    """

    local: Tensor
    batch: Tensor

    def __getitem__(self, rows: Tensor | slice) -> "Share":
        """Some of its rows: positions, a bool mask [n], or a slice."""
        return Share(self.local[rows], self.batch[rows])

    def on(self, device: torch.device) -> "Share":
        """The same on a device."""
        return Share(sent(self.local, device), sent(self.batch, device))

    def among(self, rows: Tensor) -> "Share":
        """What of it lies in some rows [M] of the batch, ascending; it is then a share of these."""
        inside = self[torch.isin(self.batch, rows)]
        return Share(inside.local, torch.searchsorted(rows, inside.batch))


@dataclass(frozen=True)
class Collected:
    """The rollouts of a step.

    `batch` has the rows of all processes in the order of the problems, shaped and selected; `rollouts` those that this
    process holds, as wide as the batch, and `share` says which rows of the batch they are: those that it sampled, until
    `redistributed` deals them anew. `reward` [N] is as graded. `examples` are some of the responses that this process
    graded. `begun` is what is sampled in part and waits, where that is done; all processes have the same.
    """

    batch: TokenBatch
    rollouts: Rollouts
    share: Share
    reward: Tensor
    examples: Sequence[GradedRollouts]
    problems_used: int
    metrics: dict[str, float]
    seconds: dict[str, float]
    teacher_prompts: Sequence[Sequence[int]] | None = None
    """What the teacher reads in place of each of the rollouts' prompts; None: these."""
    begun: Begun | None = None

    def everywhere(self, accelerator: Accelerator, values: Tensor) -> Tensor:
        """[n] or [n, t] values of this process's rows -> [N] or [N, T] values of all rows, on every process."""
        result = values.new_zeros(self.batch.mask.shape[: values.dim()])
        places = sent(self.share.batch, values.device), slice(None, values.shape[-1])
        result[places[: values.dim()]] = values
        return accelerator.reduce(result, reduction="sum")

    def sampled_by(self, version: int) -> bool:
        """Whether the policy that had so many updates behind it sampled all of them."""
        return bool((self.rollouts.version == version)[self.rollouts.mask].all())


def collect(
    experiment: Experiment,
    sampler: Environment,
    accelerator: Accelerator,
    step: int,
    problems_used: int,
    first: GradedRollouts | None = None,
    further: frozenset[str] = frozenset(),
) -> Collected:
    """Samples until `rollout.prompts_per_step` groups are selected; what is beyond them is dropped.

    Without a part that refills, that is one round; the `first` one may have been sampled ahead. The batch has the
    fields of turns that the objective reads, and those `further` ones that the rollouts have. Raises UserError if
    `rollout.max_refills` rounds more do not do.
    """
    config = experiment.config.rollout
    wanted, start = config.prompts_per_step, problems_used
    seed = step_seed(experiment.config.seed, step, "lots of tokens")
    rounds: list[_Round] = []
    while (missing := wanted - sum(r.groups for r in rounds)) > 0:
        if len(rounds) > config.max_refills:
            raise UserError(
                f"objective={experiment.config.objective}: of {problems_used - start} prompts only {wanted - missing} "
                f"gave groups with both right and wrong answers, after rollout.max_refills={config.max_refills} "
                f"refills; raise it, choose problems of a fitting difficulty, or remove dynamic_sampling"
            )
        count = _prompts_for(missing, rounds, wanted)
        part = Dealt(problems_used, count, accelerator.process_index, accelerator.num_processes)
        graded = first if first and not rounds else sample(experiment, sampler, part, step, len(rounds))
        problem = torch.tensor(part.numbers)[graded.rollouts.prompt]
        own_group = (part.start + problem).where(problem < count, THROWN_AWAY)
        rounds.append(_selected(experiment, graded, own_group, count, accelerator, seed, further))
        problems_used += count
    return _joined(rounds, wanted, problems_used, config.responses_per_prompt, experiment.objective.refills, seed)


def collected_whole(
    experiment: Experiment,
    graded: GradedRollouts,
    own_group: Tensor,
    accelerator: Accelerator,
    step: int,
    problems_used: int,
    further: frozenset[str],
) -> Collected:
    """The rollouts of a step that are sampled already, by an objective that drops none.

    `graded` are those of this process, `own_group` [n] their groups, `THROWN_AWAY` that of what is none of the step's.
    """
    rollout, seed = experiment.config.rollout, step_seed(experiment.config.seed, step, "lots of tokens")
    whole = _selected(experiment, graded, own_group, rollout.prompts_per_step, accelerator, seed, further)
    return _joined([whole], rollout.prompts_per_step, problems_used, rollout.responses_per_prompt, False, seed)


@dataclass(frozen=True)
class _Round:
    """One round of sampling: all processes' rows of the groups worth keeping, and this process's responses."""

    batch: Selected
    reward: Tensor
    """[N]: as graded."""
    sampled: int
    """Groups sampled by all processes."""
    correct: Tensor
    """[N] of every response that was sampled."""
    tokens: Tensor
    """How many were sampled."""
    graded: GradedRollouts
    own_group: Tensor
    """[n] group of each of this process's responses."""
    figures: Mapping[str, float]
    """What the environment counts, over the responses of all processes."""

    @property
    def groups(self) -> int:
        return len(self.batch.require("group", "collect").unique())


def _prompts_for(missing: int, rounds: Sequence[_Round], wanted: int) -> int:
    """How many prompts to sample so that the missing groups will probably come of them."""
    count = missing
    if rounds:
        count = math.ceil(missing * sum(r.sampled for r in rounds) / max(1, sum(r.groups for r in rounds)))
    return min(count, wanted)


@dataclass(frozen=True)
class Dealt:
    """`count` problems from `start` on, which the processes take in turn.

    All have the same number of them; what that is beyond `count` is thrown away, so that no result depends on it.
    """

    start: int
    count: int
    process: int
    processes: int

    @property
    def numbers(self) -> range:
        """Those of this process's problems, 0 being the one at `start`."""
        return range(self.process, math.ceil(self.count / self.processes) * self.processes, self.processes)

    def problems(self, experiment: Experiment) -> list[Problem]:
        """The problems of this process."""
        everyone = experiment.problems(self.start, len(self.numbers) * self.processes)
        return [everyone[number] for number in self.numbers]


def sample(experiment: Experiment, sampler: Environment, part: Dealt, step: int, number: int = 0) -> GradedRollouts:
    """A round's responses to this process's problems; the processes do not wait for each other."""
    rollout = experiment.config.rollout
    sampling, seed = sampling_of(rollout, rollout.max_response_tokens), round_seed(experiment, step, number)
    return sampler(part.problems(experiment), rollout.responses_per_prompt, sampling, seed, part.numbers)


def sampling_of(rollout: RolloutConfig, tokens: int) -> Sampling:
    """How up to so many tokens are sampled in training."""
    return Sampling(tokens, rollout.temperature, rollout.top_p, noise=rollout.noise or 0.0)


def round_seed(experiment: Experiment, step: int, number: int) -> int:
    """The seed of a step's round, the same for all processes."""
    return step_seed(experiment.config.seed, step, f"rollout {number} of process 0")


def _selected(
    experiment: Experiment,
    graded: GradedRollouts,
    own_group: Tensor,
    sampled: int,
    accelerator: Accelerator,
    seed: int,
    further: frozenset[str],
) -> _Round:
    read = experiment.objective.needs & OF_TURNS | further & graded.credit.keys()
    batch = _shared_batch(graded, own_group, accelerator, experiment.config.rollout.max_response_tokens, read)
    batch = _with_rewards(batch, graded, accelerator, experiment.config.task.reward_weights)
    batch = batch.rows(batch.require("group", "collect").argsort(stable=True))
    batch = batch.rows(batch.require("group", "collect") != THROWN_AWAY)
    batch = batch.with_fields(lot=lots(batch.require("group", "collect"), batch.mask.shape[1], seed))
    reward = batch.require("reward", "collect")
    correct, tokens = batch.require("correct", "collect"), batch.mask.sum()
    selected = experiment.objective.select(batch)
    if experiment.objective.refills:
        group = selected.require("group", "collect")
        kept = torch.isin(group, group[selected.selected])
        selected, reward = selected.rows(kept), reward[kept]
    here = own_group != THROWN_AWAY
    figures = {
        name: accelerator.reduce(values[here].sum().to(accelerator.device), "sum").item()
        for name, values in graded.figures.items()
    }
    return _Round(selected, reward, sampled, correct, tokens, graded, own_group, figures)


def _shared_batch(
    graded: GradedRollouts, group: Tensor, accelerator: Accelerator, max_length: int, read: frozenset[str]
) -> TokenBatch:
    """What objectives need to know of the responses of all processes; each has as many rows as the others.

    `read` are the fields of turns that are among it.
    """
    rollouts, device = graded.rollouts, accelerator.device
    width = int(accelerator.gather(torch.tensor([rollouts.mask.shape[1]], device=device)).max())

    def shared(values: Tensor) -> Tensor:
        return accelerator.gather(widened(values.to(device), width).contiguous())

    of_turns: dict[str, Any] = {name: shared(graded.credit[name]) for name in sorted(read)}
    return TokenBatch(
        mask=shared(rollouts.mask),
        length=shared(rollouts.mask.sum(1)),
        group=shared(group),
        reward=shared(graded.reward),
        correct=shared(graded.correct),
        truncated=shared(rollouts.truncated),
        max_length=max_length,
        logp_sampler=shared(rollouts.logp),
        writer=shared(rollouts.writers()),
        **of_turns,
    )


def _with_rewards(
    batch: TokenBatch, graded: GradedRollouts, accelerator: Accelerator, weights: Sequence[float]
) -> TokenBatch:
    """The batch with what each reward function gave; with the reward, which is weighted already, where there is one.

    Raises UserError if processes have different numbers of them.
    """
    device = accelerator.device
    rewards = graded.reward[:, None] if graded.rewards is None else graded.rewards
    counts = accelerator.gather(torch.tensor([rewards.shape[1]], device=device)).tolist()
    if len(set(counts)) > 1:
        raise UserError(uneven_rewards(set(counts)))
    every = accelerator.gather(rewards.to(device).contiguous())
    return batch.with_fields(rewards=every, reward_weights=None if graded.rewards is None else tuple(weights) or None)


def _sampled(rounds: Sequence[_Round]) -> dict[str, float]:
    """Of all responses, also those of groups that are dropped: the share of right ones, and the tokens."""
    correct = torch.cat([r.correct for r in rounds])
    return {
        "sampled/accuracy": correct.mean().item(),
        "sampled/tokens": sum(int(r.tokens) for r in rounds),
    }


def _joined(
    rounds: Sequence[_Round], wanted: int, problems_used: int, responses: int, refills: bool, seed: int
) -> Collected:
    """The groups that are wanted, of `responses` each."""
    counts = {r.batch.rewards.shape[1] for r in rounds if r.batch.rewards is not None}
    if len(counts) > 1:
        raise UserError(uneven_rewards(counts))
    batch, reward = concatenated([r.batch for r in rounds]), torch.cat([r.reward for r in rounds])
    group, own_group = batch.require("group", "collect"), torch.cat([r.own_group for r in rounds])
    used = torch.tensor(list(dict.fromkeys(group.tolist()))[:wanted], device=group.device)
    kept = torch.isin(group, used)
    batch, reward, group = batch.rows(kept), reward[kept], group[kept]
    batch = batch.with_fields(lot=lots(group, batch.mask.shape[1], seed))
    rollouts = concatenate([r.graded.rollouts for r in rounds]).rows(torch.isin(own_group, used.cpu()))
    here = torch.isin(group.cpu(), own_group).nonzero()[:, 0]
    sampled = sum(r.sampled for r in rounds)
    metrics = {"groups_dropped": 1 - sum(r.groups for r in rounds) / sampled, **_sampled(rounds)} if refills else {}
    for name in rounds[0].figures:
        metrics[name] = sum(r.figures[name] for r in rounds) / (sampled * responses)
    return Collected(
        batch=batch,
        rollouts=rollouts.widened(batch.mask.shape[1]),
        share=Share(torch.arange(len(here)), here),
        reward=reward,
        examples=[r.graded for r in rounds],
        problems_used=problems_used,
        metrics=metrics,
        seconds={name: sum(r.graded.seconds.get(name, 0.0) for r in rounds) for name in ("generate", "grade")},
    )
