"""Groups of responses that are sampled a part at a time, each part by the policy that is there then."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from rlzoo.rollout.base import RolloutEngine, Rollouts, Sampling, concatenate

_DTYPES = {"mask": torch.bool, "truncated": torch.bool, "logp": None, "entropy": None}
_OF_TOKENS = frozenset({"tokens", "mask", "logp", "entropy", "version"})


@dataclass(frozen=True)
class Begun:
    """Groups that are begun; those that are finished wait for others.

    `problems` are their numbers in the stream of training problems, ascending, and `rollouts` has a prompt for each,
    with its G responses. A response that goes on is truncated and shorter than `limit` tokens; one that is still to be
    begun has none.
    """

    problems: tuple[int, ...]
    rollouts: Rollouts
    limit: int

    @classmethod
    def none(cls, limit: int) -> "Begun":
        """No group at all."""
        return cls((), _without_tokens([], 0), limit)

    def and_also(self, problems: Sequence[int], prompts: Sequence[Sequence[int]], responses: int) -> "Begun":
        """With further groups of so many responses, of which nothing is sampled."""
        joined = concatenate([self.rollouts, _without_tokens(prompts, responses)])
        return replace(self, problems=(*self.problems, *problems), rollouts=joined)

    @property
    def going_on(self) -> Tensor:
        """[M] bool: the responses that are not finished."""
        return self.rollouts.truncated & (self.rollouts.lengths < self.limit)

    @property
    def unfinished(self) -> list[int]:
        """The places of the groups some of whose responses are not finished."""
        return list(self.rollouts.prompt[self.going_on].unique().tolist())

    @property
    def finished(self) -> list[int]:
        """The places of the other groups."""
        return sorted({*range(len(self.problems))} - {*self.unfinished})

    def of(self, places: Sequence[int]) -> "Begun":
        """Some of the groups, by their places, ascending; no wider than their longest response."""
        chosen = torch.tensor(places, dtype=torch.long)
        rows = self.rollouts.rows(torch.isin(self.rollouts.prompt, chosen))
        width = int(rows.lengths.max()) if len(rows.lengths) else 0
        tensors = {name: tensor[:, :width] if name in _OF_TOKENS else tensor for name, tensor in rows.tensors().items()}
        tensors["prompt"] = torch.searchsorted(chosen, rows.prompt)
        prompts = [self.rollouts.prompts[place] for place in places]
        return replace(self, problems=tuple(self.problems[p] for p in places), rollouts=Rollouts(prompts, **tensors))

    def with_rows(self, rows: Tensor, whole: Rollouts) -> "Begun":
        """With other responses in the rows [n]; their prompts stay."""
        width = max(self.rollouts.tokens.shape[1], whole.tokens.shape[1])
        held, given = self.rollouts.widened(width).tensors(), whole.widened(width).tensors()
        changed = {name: held[name].index_copy(0, rows, given[name]) for name in held if name != "prompt"}
        return replace(self, rollouts=self.rollouts.with_tensors(changed))


def further(
    engine: RolloutEngine, begun: Rollouts, responses: int, lot: Tensor, sampling: Sampling, seed: int
) -> Rollouts:
    """Responses [n] with up to `sampling.max_response_tokens` tokens more, by the policy that the engine has now.

    Each draws by its lot [n]: the number of its group times `responses`, plus its number in the group. Where nothing
    has a token yet they are whole groups, and sampled as such.
    """
    if begun.lengths.any():
        behind = [
            [*prompt, *tokens[:length]]
            for prompt, tokens, length in zip(
                begun.prompt_tokens(), begun.tokens.tolist(), begun.lengths.tolist(), strict=True
            )
        ]
        return _joined(begun, engine.generate(behind, 1, sampling, seed, lot.tolist()))
    prompts = begun.prompt_tokens()[::responses]
    return _joined(begun, engine.generate(prompts, responses, sampling, seed, (lot[::responses] // responses).tolist()))


def _joined(begun: Rollouts, sampled: Rollouts) -> Rollouts:
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
