"""Rollouts of older policies: sampled one step ahead, or a part at a time.

Ahead: at the end of step k the policy is P(k), and the rollouts that step k + 1 trains on lie ready, sampled by
P(k - 1); the first step's are P(0)'s. The last step samples ahead too: a finished run may be given more steps.

In parts: a step does not wait for its longest responses, which go on in the steps that come. Every round samples up to
`rollout.partial_tokens` tokens more of each response that is not finished. As soon as `rollout.prompts_per_step` groups
are finished, the step is trained on the first of them, by problem; the others wait with the tokens and log-probs that
they have, and the next step's policy goes on with them. If a round was not enough, as many further groups are begun as
are missing. Every step begins as many groups as it takes, less those that wait finished where nothing else waits or
where these are enough: so as many groups wait as a step was short of once. The method is that of Kimi k1.5
(arXiv:2501.12599, section 2.6.2), with whole groups. The old log-prob of a token is that of the policy which sampled
it; AReaL (arXiv:2505.24298) has a second ratio, between that and the last policy.

A checkpoint keeps both by problem and whatever the number of ranks, so that a resumed run trains on the very same.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path

import torch
from accelerate import Accelerator
from safetensors.torch import load_file
from torch import Tensor

from rlzoo.config import RolloutConfig
from rlzoo.experiment.experiment import Experiment
from rlzoo.experiment.progress import AHEAD, BEGUN, Progress, readable
from rlzoo.rollout.base import RolloutEngine, Rollouts, Sampling, concatenate
from rlzoo.rollout.sampler import GradedRollouts, Sampler, span
from rlzoo.tasks.base import Problem
from rlzoo.training.rows import gather_rows, grade_share, problem_share, round_seed, sampling_of

_DTYPES = {"mask": torch.bool, "truncated": torch.bool, "logp": None, "entropy": None}
_OF_TOKENS = frozenset({"tokens", "mask", "logp", "entropy", "version"})


# ---- ahead -----------------------------------------------------------------------------------------------------------


def sample_in_background(sample: Callable[[], GradedRollouts], apart: bool) -> Future[GradedRollouts]:
    """Samples beside what comes next if the engine works `apart` from it; else at once."""
    if apart:
        thread = ThreadPoolExecutor(1, "rollouts")
        future = thread.submit(sample)
        thread.shutdown(wait=False)
    else:
        future = Future()
        future.set_result(sample())
    return future


def ahead_tensors(rollouts: Rollouts, config: RolloutConfig, accelerator: Accelerator) -> dict[str, Tensor]:
    """What a checkpoint keeps of rollouts [N] ahead, by problem; `prompt` counts from the first problem."""
    share = problem_share(config.prompts_per_step, accelerator)
    whole = gather_rows({**rollouts.tensors(), "prompt": torch.tensor(share)[rollouts.prompt]}, accelerator)
    order = whole["prompt"].argsort(stable=True)
    order = order[whole["prompt"][order] < config.prompts_per_step]
    return {name: tensor[order] for name, tensor in whole.items()}


def read_ahead(
    checkpoint: Path,
    experiment: Experiment,
    sampler: Sampler,
    accelerator: Accelerator,
    progress: Progress,
    vocabulary: int,
) -> GradedRollouts:
    """The share of this rank in what a checkpoint has ahead, graded again. Raises UserError for what none can be."""
    problems = experiment.problems(progress.problems_used, experiment.config.rollout.prompts_per_step)
    prompts = sampler.prompts(problems)
    with readable(checkpoint):
        saved = load_file(checkpoint / AHEAD)
        _check_saved(saved, len(problems), experiment.config.rollout.responses_per_prompt, vocabulary)
        rollouts = Rollouts(prompts, **saved)
    return grade_share(rollouts, problems, sampler, accelerator)


# ---- in parts --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PartialRollouts:
    """Groups that are begun; those that are finished wait for others. All ranks have the same.

    `problems` are their numbers in the stream of training problems, ascending, and `rollouts` has a prompt for each,
    with its G responses. A response that goes on is truncated and shorter than `limit` tokens; one that is still to be
    begun has none.
    """

    problems: tuple[int, ...]
    rollouts: Rollouts
    limit: int

    @classmethod
    def none(cls, limit: int) -> "PartialRollouts":
        """No group at all."""
        return cls((), _without_tokens([], 0), limit)

    def with_new_groups(
        self, problems: Sequence[int], prompts: Sequence[Sequence[int]], responses: int
    ) -> "PartialRollouts":
        """Adds groups of `responses` responses each that have no token yet."""
        joined = concatenate([self.rollouts, _without_tokens(prompts, responses)])
        return replace(self, problems=(*self.problems, *problems), rollouts=joined)

    @property
    def is_unfinished(self) -> Tensor:
        """[M] bool: the responses that go on."""
        return self.rollouts.truncated & (self.rollouts.lengths < self.limit)

    @property
    def unfinished(self) -> list[int]:
        """The places of the groups some of whose responses are not finished."""
        return list(self.rollouts.prompt[self.is_unfinished].unique().tolist())

    @property
    def finished(self) -> list[int]:
        """The places of the other groups."""
        return sorted({*range(len(self.problems))} - {*self.unfinished})

    def groups(self, places: Sequence[int]) -> "PartialRollouts":
        """Some of the groups, by their places, ascending; no wider than their longest response."""
        chosen = torch.tensor(places, dtype=torch.long)
        rows = self.rollouts.rows(torch.isin(self.rollouts.prompt, chosen))
        width = int(rows.lengths.max()) if len(rows.lengths) else 0
        tensors = {name: tensor[:, :width] if name in _OF_TOKENS else tensor for name, tensor in rows.tensors().items()}
        tensors["prompt"] = torch.searchsorted(chosen, rows.prompt)
        prompts = [self.rollouts.prompts[place] for place in places]
        return replace(self, problems=tuple(self.problems[p] for p in places), rollouts=Rollouts(prompts, **tensors))

    def with_rows(self, rows: Tensor, tensors: Mapping[str, Tensor]) -> "PartialRollouts":
        """Replaces the responses in the rows [n]; their prompts stay."""
        whole = Rollouts(self.rollouts.prompts, **tensors)
        width = max(self.rollouts.tokens.shape[1], whole.tokens.shape[1])
        held, given = self.rollouts.widened(width).tensors(), whole.widened(width).tensors()
        changed = {name: held[name].index_copy(0, rows, given[name]) for name in held if name != "prompt"}
        return replace(self, rollouts=self.rollouts.with_tensors(changed))


def sample_parts(
    experiment: Experiment,
    sampler: Sampler,
    accelerator: Accelerator,
    step: int,
    problems_used: int,
    begun: PartialRollouts | None,
) -> tuple[PartialRollouts, PartialRollouts, int, dict[str, float]]:
    """The groups of a step, those that wait for later ones, the problems used then, and metrics.

    Groups that were `begun` in earlier steps come before others.
    """
    rollout, wanted = experiment.config.rollout, experiment.config.rollout.prompts_per_step
    begun = PartialRollouts.none(rollout.max_response_tokens) if begun is None else begun
    before, rounds, missing = int(begun.rollouts.lengths.sum()), 0, groups_to_begin(begun, wanted)
    while rounds == 0 or missing > 0:
        problems = experiment.problems(problems_used, missing)
        numbers = range(problems_used, problems_used + missing)
        begun = begun.with_new_groups(numbers, sampler.prompts(problems), rollout.responses_per_prompt)
        with span("generate"):
            begun = _sample_round(begun, experiment, sampler, accelerator, round_seed(experiment, step, rounds))
        problems_used, rounds = problems_used + missing, rounds + 1
        missing = wanted - len(begun.finished)
    tokens, chosen = int(begun.rollouts.lengths.sum()) - before, begun.finished[:wanted]
    waiting = begun.groups(sorted({*range(len(begun.problems))} - {*chosen}))
    metrics: dict[str, float] = {
        "sampled/tokens": tokens,
        "sampled/rounds": rounds,
        "groups_waiting": len(waiting.problems),
    }
    return begun.groups(chosen), waiting, problems_used, metrics


def groups_to_begin(begun: PartialRollouts, wanted: int) -> int:
    """How many groups a step begins before it samples."""
    finished, waiting = len(begun.finished), len(begun.problems)
    is_enough = finished == waiting or finished >= wanted
    return max(0, wanted - finished) if is_enough else wanted


def _sample_round(
    begun: PartialRollouts, experiment: Experiment, sampler: Sampler, accelerator: Accelerator, seed: int
) -> PartialRollouts:
    """One round: each rank continues the responses of its share of the unfinished groups, and hears of all."""
    rollout, unfinished = experiment.config.rollout, begun.unfinished
    if not unfinished:
        return begun
    here = torch.tensor(unfinished[accelerator.process_index :: accelerator.num_processes], dtype=torch.long)
    rows = (begun.is_unfinished & torch.isin(begun.rollouts.prompt, here)).nonzero()[:, 0]
    own = begun.rollouts.rows(rows)
    if len(rows):
        size = rollout.responses_per_prompt
        number = torch.searchsorted(torch.tensor(unfinished), own.prompt) * size + rows % size
        own = continue_sampling(sampler.engine, own, size, number, sampling_of(rollout, rollout.partial_tokens), seed)
    tensors = gather_rows({"row": rows, **own.tensors()}, accelerator)
    return begun.with_rows(tensors.pop("row"), tensors)


def continue_sampling(
    engine: RolloutEngine, begun: Rollouts, responses: int, number: Tensor, sampling: Sampling, seed: int
) -> Rollouts:
    """Responses [n] with up to `sampling.max_response_tokens` tokens more, by the policy that the engine has now.

    Each draws by its `number` [n]: that of its group times `responses`, plus its number in the group. Where nothing has
    a token yet they are whole groups, and sampled as such.
    """
    prompts, draws = begun.prompt_tokens(), number.tolist()
    if begun.lengths.any():
        rows = zip(prompts, begun.tokens.tolist(), begun.lengths.tolist(), strict=True)
        behind = [[*prompt, *tokens[:length]] for prompt, tokens, length in rows]
        return _appended(begun, engine.generate(behind, 1, sampling, seed, draws))
    groups = [draw // responses for draw in draws[::responses]]
    return _appended(begun, engine.generate(prompts[::responses], responses, sampling, seed, groups))


def _appended(begun: Rollouts, sampled: Rollouts) -> Rollouts:
    """Responses with what was sampled behind them."""
    place = begun.lengths[:, None] + torch.arange(sampled.tokens.shape[1])
    held, behind = begun.widened(max(begun.tokens.shape[1], int(place.max()) + 1)).tensors(), sampled.tensors()
    joined = {name: held[name].scatter(1, place, behind[name]) for name in _OF_TOKENS}
    ends = {"lengths": begun.lengths + sampled.lengths, "truncated": sampled.truncated}
    return begun.with_tensors({**joined, **ends})


def _without_tokens(prompts: Sequence[Sequence[int]], responses: int) -> Rollouts:
    prompt = torch.arange(len(prompts)).repeat_interleave(responses)
    empty = {
        item.name: torch.zeros(
            (len(prompt), 0) if item.name in _OF_TOKENS else (len(prompt),), dtype=_DTYPES.get(item.name, torch.long)
        )
        for item in fields(Rollouts)
        if item.name != "prompts"
    }
    return Rollouts(prompts, **{**empty, "prompt": prompt, "truncated": torch.ones(len(prompt), dtype=torch.bool)})


def numbered_problems(experiment: Experiment, numbers: Sequence[int]) -> list[Problem]:
    """The problems of the stream with these numbers, ascending."""
    if not numbers:
        return []
    first = numbers[0]
    stream = experiment.problems(first, numbers[-1] - first + 1)
    return [stream[number - first] for number in numbers]


def partial_tensors(begun: PartialRollouts) -> dict[str, Tensor]:
    """What a checkpoint keeps of the groups that wait: their prompts follow from their problems."""
    tensors = {"problem": torch.tensor(begun.problems, dtype=torch.long), **begun.rollouts.tensors()}
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def read_partial(
    checkpoint: Path, experiment: Experiment, sampler: Sampler, progress: Progress, vocabulary: int
) -> PartialRollouts:
    """The groups that wait at a checkpoint, whatever the number of ranks was.

    Raises ValueError for what no run writes.
    """
    saved = load_file(checkpoint / BEGUN)
    problems = tuple(saved.pop("problem").tolist())
    if list(problems) != sorted({*problems}) or not all(0 <= problem < progress.problems_used for problem in problems):
        raise ValueError(f"{BEGUN} holds problems that the run has not begun")
    _check_saved(saved, len(problems), experiment.config.rollout.responses_per_prompt, vocabulary)
    prompts = sampler.prompts(numbered_problems(experiment, problems))
    return PartialRollouts(problems, Rollouts(prompts, **saved), experiment.config.rollout.max_response_tokens)


def _check_saved(saved: Mapping[str, Tensor], groups: int, responses: int, vocabulary: int) -> None:
    """Raises ValueError for tensors that are not rollouts of this number of groups. The file is not trusted."""
    tensors = Rollouts([], **saved).tensors()
    rows, width = groups * responses, tensors["tokens"].shape[-1]
    largest = {"tokens": vocabulary - 1, "lengths": width, "prompt": groups - 1, "version": torch.iinfo(torch.long).max}
    for name, tensor in tensors.items():
        shape = (rows, width) if name in _OF_TOKENS else (rows,)
        fits = tensor.shape == shape and tensor.dtype == (_DTYPES.get(name, torch.long) or torch.float32)
        if fits and name in largest and tensor.numel():
            fits = int(tensor.min()) >= 0 and int(tensor.max()) <= largest[name]
        if not fits:
            raise ValueError(f"{name} of its rollouts is not what a run writes")
