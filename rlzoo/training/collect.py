"""The rollouts of one step: sampled, graded, selected, refilled, and known to every process."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from accelerate import Accelerator
from torch import Tensor

from objectives import TokenBatch
from rlzoo.errors import UserError
from rlzoo.experiment.experiment import Experiment, step_seed
from rlzoo.rollout.base import Rollouts, Sampling, concatenate
from rlzoo.rollout.sampler import GradedRollouts, Sampler


@dataclass(frozen=True)
class Collected:
    """The rollouts of a step.

    `batch` has the rows of all processes, `rollouts` those sampled by this one, and `here` [n] says which rows of
    `batch` they are. `examples` are some of this process's graded responses.
    """

    batch: TokenBatch
    rollouts: Rollouts
    here: Tensor
    examples: Sequence[GradedRollouts]
    problems_used: int
    metrics: dict[str, float]
    seconds: dict[str, float]

    def own(self, rows: Tensor | None = None) -> Tensor:
        """Numbers of this process's rows, all or those among `rows` of the batch."""
        if rows is None:
            return torch.arange(len(self.here))
        return torch.isin(self.here, rows).nonzero()[:, 0].cpu()

    def everywhere(self, accelerator: Accelerator, values: Tensor) -> Tensor:
        """[n, t] values of this process's rows -> [N, T] values of all rows, on every process."""
        result = values.new_zeros(self.batch.mask.shape)
        result[self.here, : values.shape[1]] = values
        return accelerator.reduce(result, reduction="sum")


def collect(
    experiment: Experiment, sampler: Sampler, accelerator: Accelerator, step: int, problems_used: int
) -> Collected:
    """Samples until `rollout.prompts_per_step` groups are selected; what is beyond them is dropped.

    Without a part that refills, that is one round. Raises UserError if `rollout.max_refills` rounds more do not do.
    """
    config = experiment.config.rollout
    wanted, start = config.prompts_per_step, problems_used
    rounds: list[_Round] = []
    while (missing := wanted - sum(r.groups for r in rounds)) > 0:
        if len(rounds) > config.max_refills:
            raise UserError(
                f"objective={experiment.config.objective}: of {problems_used - start} prompts only {wanted - missing} "
                f"gave groups with both right and wrong answers, after rollout.max_refills={config.max_refills} "
                f"refills; raise it, choose problems of a fitting difficulty, or remove dynamic_sampling"
            )
        count = _prompts_for(missing, rounds, wanted, accelerator.num_processes)
        rounds.append(_sample_round(experiment, sampler, accelerator, step, len(rounds), problems_used, count))
        problems_used += count
    return _joined(rounds, wanted, problems_used, experiment.objective.refills)


@dataclass(frozen=True)
class _Round:
    """One round of sampling: all processes' rows of the groups worth keeping, and this process's responses."""

    batch: TokenBatch
    sampled: int
    """Groups sampled by all processes."""
    graded: GradedRollouts
    own_group: Tensor
    """[n] group of each of this process's responses."""

    @property
    def groups(self) -> int:
        return len(self.batch.require("group", "collect").unique())


def _prompts_for(missing: int, rounds: Sequence[_Round], wanted: int, processes: int) -> int:
    """How many prompts to sample so that the missing groups will probably come of them."""
    count = missing
    if rounds:
        count = math.ceil(missing * sum(r.sampled for r in rounds) / max(1, sum(r.groups for r in rounds)))
    return math.ceil(min(count, wanted) / processes) * processes


def _sample_round(
    experiment: Experiment, sampler: Sampler, accelerator: Accelerator, step: int, number: int, start: int, count: int
) -> _Round:
    config = experiment.config
    rank, share = accelerator.process_index, count // accelerator.num_processes
    problems = experiment.problems(start + rank * share, share)
    sampling = Sampling(config.rollout.max_response_tokens, config.rollout.temperature, config.rollout.top_p)
    seed = step_seed(config.seed, step, f"rollout {number} of process {rank}")
    graded = sampler(problems, config.rollout.responses_per_prompt, sampling, seed)
    own_group = graded.rollouts.prompt + start + rank * share
    batch = _shared_batch(graded, own_group, accelerator, config.rollout.max_response_tokens)
    if experiment.objective.refills:
        selected = experiment.objective.select(batch).selected
        assert selected is not None and batch.group is not None
        batch = batch.rows(torch.isin(batch.group, batch.group[selected]))
    return _Round(batch, count, graded, own_group)


def _shared_batch(graded: GradedRollouts, group: Tensor, accelerator: Accelerator, max_length: int) -> TokenBatch:
    """What objectives need to know of the responses of all processes; each has as many rows as the others."""
    rollouts, device = graded.rollouts, accelerator.device
    t = rollouts.mask.shape[1]
    width = int(accelerator.gather(torch.tensor([t], device=device)).max())

    def shared(values: Tensor) -> Tensor:
        wide = torch.nn.functional.pad(values.to(device), (0, width - t)) if values.dim() == 2 else values.to(device)
        return accelerator.gather(wide.contiguous())

    return TokenBatch(
        mask=shared(rollouts.mask),
        group=shared(group),
        reward=shared(graded.reward),
        correct=shared(graded.correct),
        truncated=shared(rollouts.truncated),
        max_length=max_length,
        logp_sampler=shared(rollouts.logp),
    )


def _joined(rounds: Sequence[_Round], wanted: int, problems_used: int, refills: bool) -> Collected:
    batch = _concatenate([r.batch for r in rounds])
    assert batch.group is not None
    used = torch.tensor(list(dict.fromkeys(batch.group.tolist()))[:wanted], device=batch.group.device)
    batch = batch.rows(torch.isin(batch.group, used))
    own_group = torch.cat([r.own_group for r in rounds])
    assert batch.group is not None
    sampled = sum(r.sampled for r in rounds)
    metrics = {"groups_dropped": 1 - sum(r.groups for r in rounds) / sampled} if refills else {}
    return Collected(
        batch=batch,
        rollouts=concatenate([r.graded.rollouts for r in rounds]).rows(torch.isin(own_group, used.cpu())),
        here=torch.isin(batch.group, own_group.to(batch.group.device)).nonzero()[:, 0],
        examples=[r.graded for r in rounds],
        problems_used=problems_used,
        metrics=metrics,
        seconds={name: sum(r.graded.seconds[name] for r in rounds) for name in ("generate", "grade")},
    )


def _concatenate(batches: Sequence[TokenBatch]) -> TokenBatch:
    width = max(batch.mask.shape[1] for batch in batches)

    def joined(name: str) -> Tensor:
        values = [batch.require(name, "collect") for batch in batches]
        return torch.cat([torch.nn.functional.pad(v, (0, width - v.shape[1])) if v.dim() == 2 else v for v in values])

    return batches[0].with_fields(**{name: joined(name) for name in batches[0].tensors()})
