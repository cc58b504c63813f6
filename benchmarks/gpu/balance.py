"""How much more than the mean the fullest of several processes trains in an optimiser update: as sampled, and dealt.

    python -m benchmarks.gpu.balance [CONFIG] [PROCESSES]

Rollouts are drawn for a configuration: log-normal lengths whose mean is a quarter of `rollout.max_response_tokens`, the
logarithms of one prompt's correlated by 0.5, and cut off there or not. Printed is a row for each sigma, over all
mini-batches of 20 draws.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from objectives import whole_groups
from rlzoo.config import Config, load_config
from rlzoo.model.layout import Work, assign_minibatches

CORRELATION = 0.5
MEAN = 1 / 4
"""Of the limit."""
PROMPT = 200
SIGMAS = (0.5, 1.0, 1.5, 2.0)
DRAWS = 20
LINEAR = 24_400
"""Tokens of the response whose attention costs as much as all else: 2 x 1.4e9 operations a token of Qwen3-1.7B, and
2 x 28 layers x 2048 a token and token of the response."""


@dataclass(frozen=True)
class Setting:
    """Rollouts of a step, and on how many processes."""

    prompts: int
    responses: int
    minibatches: int
    limit: int
    processes: int

    @classmethod
    def of(cls, config: Config, processes: int) -> "Setting":
        """That of a configuration."""
        rollout = config.rollout
        sizes = rollout.prompts_per_step, rollout.responses_per_prompt, config.train.minibatches_per_step
        return cls(*sizes, rollout.max_response_tokens, processes)

    def draw(self, sigma: float, seed: int, cut: bool = True, silent: float = 0.0) -> Work:
        """A step's rollouts; of the groups a part `silent` has equal rewards."""
        generator = torch.Generator().manual_seed(seed)
        prompt = torch.randn(self.prompts, 1, generator=generator)
        response = torch.randn(self.prompts, self.responses, generator=generator)
        lengths = (sigma * (CORRELATION**0.5 * prompt + (1 - CORRELATION) ** 0.5 * response) - sigma**2 / 2).exp()
        tokens = (lengths * MEAN * self.limit).long().clamp(min=1, max=self.limit if cut else None).flatten()
        learns = torch.rand(self.prompts, generator=generator) >= silent
        count = self.prompts * self.responses
        return Work(
            group=[row // self.responses for row in range(count)],
            prompt_lengths=[PROMPT] * count,
            lengths=tokens.tolist(),
            learns=learns.repeat_interleave(self.responses).tolist(),
        )

    def sampled(self) -> Tensor:
        """[N] the process that samples each row: problems are dealt in turn."""
        return torch.arange(self.prompts).repeat_interleave(self.responses) % self.processes

    def dealt(self, work: Work) -> Tensor:
        """[N] the process that trains each row."""
        return assign_minibatches(work, self.minibatches, self.processes, longest_tree=0)

    def fullest(self, work: Work, process_of: Tensor, costs: Tensor) -> Iterator[float]:
        """Of each mini-batch, the cost of the rows that learn on the fullest process over the mean of all."""
        costs = costs * torch.tensor(work.learns)
        for rows in whole_groups(torch.tensor(work.group), self.minibatches):
            loads = costs.new_zeros(self.processes).index_add(0, process_of[rows], costs[rows])
            yield float(loads.max() / loads.mean())

    def longest(self, work: Work) -> Iterator[float]:
        """Of each mini-batch, the largest row that learns over the mean of all processes; no division does better."""
        costs = positions(work) * torch.tensor(work.learns)
        for rows in whole_groups(torch.tensor(work.group), self.minibatches):
            yield float(costs[rows].max() / costs[rows].sum()) * self.processes


def positions(work: Work) -> Tensor:
    """[N] of each row: what is balanced."""
    return (torch.tensor(work.prompt_lengths) + torch.tensor(work.lengths) - 1).double()


def with_attention(work: Work) -> Tensor:
    """[N] of each row, in positions: with what attention between its tokens costs."""
    tokens = positions(work)
    return tokens * (1 + tokens / LINEAR)


def row(setting: Setting, sigma: float, cut: bool, silent: float) -> list[str]:
    """Mean and largest of all mini-batches: as sampled, dealt, the largest response, dealt with attention."""
    sampled, dealt, longest, attention = list[float](), list[float](), list[float](), list[float]()
    for seed in range(DRAWS):
        work = setting.draw(sigma, seed, cut, silent)
        process_of = setting.dealt(work)
        sampled.extend(setting.fullest(work, setting.sampled(), positions(work)))
        dealt.extend(setting.fullest(work, process_of, positions(work)))
        longest.extend(setting.longest(work))
        attention.extend(setting.fullest(work, process_of, with_attention(work)))
    return [said(values) for values in (sampled, dealt, longest, attention)]


def said(values: Sequence[float]) -> str:
    """Mean, and the largest."""
    return f"{sum(values) / len(values):.2f} ({max(values):.2f})"


def main(config: str = "configs/dapo_qwen2.5_32b.yaml", processes: str = "64") -> None:
    """Prints the table."""
    setting = Setting.of(load_config([config]), int(processes))
    names = "sigma", "limit", "groups without a signal", "as sampled", "dealt", "the largest response", "with attention"
    print(f"{config}: {setting}", "| " + " | ".join(names) + " |", "|---" * len(names) + "|", sep="\n")
    for cut, silent in ((True, 0.0), (True, 0.5), (False, 0.0)):
        for sigma in SIGMAS:
            cells = [f"{sigma:g}", "yes" if cut else "no", f"{silent:.0%}", *row(setting, sigma, cut, silent)]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
