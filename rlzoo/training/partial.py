"""Partial rollouts: a step does not wait for its longest responses, which go on in the steps that come.

Every round samples up to `rollout.partial_tokens` tokens more of each response that is not finished. As soon as
`rollout.prompts_per_step` groups are finished, the step is trained on the first of them, by problem; the others wait
with the tokens and log-probs that they have, and the next step's policy goes on with them. A round that does not do
has as many further groups begun as lack. Every step begins as many groups as it takes, less those that wait finished
where nothing else waits or where these are enough: so as many groups wait as a step lacked once.

The method is that of Kimi k1.5 (arXiv:2501.12599, section 2.6.2), with whole groups. The old log-prob of a token is
that of the policy which sampled it; AReaL (arXiv:2505.24298) has a second ratio, between that and the last policy.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from accelerate import Accelerator
from safetensors.torch import load_file
from torch import Tensor

from rlzoo.experiment.experiment import Experiment
from rlzoo.experiment.progress import BEGUN
from rlzoo.rollout.base import Rollouts
from rlzoo.rollout.begun import Begun, further
from rlzoo.rollout.phases import span
from rlzoo.rollout.sampler import Environment, GradedRollouts
from rlzoo.tasks.base import Problem
from rlzoo.training.collect import THROWN_AWAY, Collected, Dealt, collected_whole, round_seed, sampling_of


def collect_partial(
    experiment: Experiment,
    sampler: Environment,
    accelerator: Accelerator,
    step: int,
    problems_used: int,
    begun: Begun | None = None,
    fields: frozenset[str] = frozenset(),
) -> Collected:
    """The rollouts of a step, the groups that were `begun` in earlier ones before others.

    The batch has those further `fields` that the rollouts have.
    """
    rollout, started = experiment.config.rollout, time.perf_counter()
    wanted = rollout.prompts_per_step
    begun = Begun.none(rollout.max_response_tokens) if begun is None else begun
    before, rounds, missing = int(begun.rollouts.lengths.sum()), 0, _groups_to_begin(begun, wanted)
    while rounds == 0 or missing > 0:
        problems = experiment.problems(problems_used, missing)
        numbers = range(problems_used, problems_used + missing)
        begun = begun.and_also(numbers, sampler.prompts(problems), rollout.responses_per_prompt)
        with span("generate"):
            begun = _gone_on(begun, experiment, sampler, accelerator, round_seed(experiment, step, rounds))
        problems_used, rounds = problems_used + missing, rounds + 1
        missing = wanted - len(begun.finished)
    tokens, chosen = int(begun.rollouts.lengths.sum()) - before, begun.finished[:wanted]
    waiting = begun.of(sorted({*range(len(begun.problems))} - {*chosen}))
    sampled = time.perf_counter()
    with span("grade"):
        graded, own_group = _graded_here(begun.of(chosen), experiment, sampler, accelerator)
    seconds = {"generate": sampled - started, "grade": time.perf_counter() - sampled}
    graded = replace(graded, seconds=seconds)
    collected = collected_whole(experiment, graded, own_group, accelerator, step, problems_used, fields)
    metrics = {"sampled/tokens": tokens, "sampled/rounds": rounds, "groups_waiting": len(waiting.problems)}
    return replace(collected, metrics=collected.metrics | metrics, begun=waiting)


def _groups_to_begin(begun: Begun, wanted: int) -> int:
    finished, waiting = len(begun.finished), len(begun.problems)
    is_enough = finished == waiting or finished >= wanted
    return max(0, wanted - finished) if is_enough else wanted


def _gone_on(begun: Begun, experiment: Experiment, sampler: Environment, accelerator: Accelerator, seed: int) -> Begun:
    """One round: all processes sample further what goes on of the groups that they take in turn, and hear of all."""
    rollout, unfinished = experiment.config.rollout, begun.unfinished
    if not unfinished:
        return begun
    here = torch.tensor(unfinished[accelerator.process_index :: accelerator.num_processes], dtype=torch.long)
    rows = (begun.going_on & torch.isin(begun.rollouts.prompt, here)).nonzero()[:, 0]
    whole = begun.rollouts.rows(rows)
    if len(rows):
        size = rollout.responses_per_prompt
        lot = torch.searchsorted(torch.tensor(unfinished), whole.prompt) * size + rows % size
        sampling = sampling_of(rollout, rollout.partial_tokens)
        whole = further(sampler.engine, whole, size, lot, sampling, seed)
    rows, whole = _of_all_processes(rows, whole, accelerator)
    return begun.with_rows(rows, whole)


def _of_all_processes(rows: Tensor, whole: Rollouts, accelerator: Accelerator) -> tuple[Tensor, Rollouts]:
    """The rows [n] of each process and what is in them, on the CPU of every one."""

    def everywhere(tensor: Tensor) -> Tensor:
        padded = tensor.to(accelerator.device)
        for dimension in range(tensor.dim()):
            padded = accelerator.pad_across_processes(padded, dimension).to(tensor.dtype)
        return accelerator.gather(padded.contiguous()).cpu()

    if accelerator.num_processes == 1:
        return rows, whole
    number = everywhere(rows + 1)  # 0 is padding
    tensors = {name: everywhere(tensor)[number > 0] for name, tensor in whole.tensors().items()}
    return number[number > 0] - 1, Rollouts(whole.prompts, **tensors)


def _graded_here(
    whole: Begun, experiment: Experiment, sampler: Environment, accelerator: Accelerator
) -> tuple[GradedRollouts, Tensor]:
    """The groups that this process trains on, graded, and the group of each row [n]; processes take them in turn."""
    size, count = experiment.config.rollout.responses_per_prompt, len(whole.problems)
    numbers = Dealt(0, count, accelerator.process_index, accelerator.num_processes).numbers
    places = [number % count for number in numbers]  # what makes the shares equal is thrown away
    rows = torch.cat([place * size + torch.arange(size) for place in places])
    prompt = torch.arange(len(places)).repeat_interleave(size)
    rollouts = replace(
        whole.rollouts.rows(rows), prompts=[whole.rollouts.prompts[place] for place in places], prompt=prompt
    )
    problems = _problems(experiment, whole.problems)
    graded = sampler.graded([problems[place] for place in places], rollouts)
    group = [whole.problems[number] if number < count else THROWN_AWAY for number in numbers]
    return graded, torch.tensor(group)[prompt]


def _problems(experiment: Experiment, numbers: Sequence[int]) -> list[Problem]:
    """Those of the stream that have these numbers, ascending."""
    if not numbers:
        return []
    first = numbers[0]
    stream = experiment.problems(first, numbers[-1] - first + 1)
    return [stream[number - first] for number in numbers]


def begun_tensors(begun: Begun) -> dict[str, Tensor]:
    """What a checkpoint keeps of the groups that wait: their prompts follow from their problems."""
    tensors = {"problem": torch.tensor(begun.problems, dtype=torch.long), **begun.rollouts.tensors()}
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def read_begun(checkpoint: Path, experiment: Experiment, sampler: Environment) -> Begun:
    """The groups that wait at a checkpoint, whatever the number of processes was."""
    saved = load_file(checkpoint / BEGUN)
    problems = tuple(saved.pop("problem").tolist())
    prompts = sampler.prompts(_problems(experiment, problems))
    return Begun(problems, Rollouts(prompts, **saved), experiment.config.rollout.max_response_tokens)
