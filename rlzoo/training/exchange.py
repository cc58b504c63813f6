"""Rollouts go from the processes that sampled them to those that train them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from accelerate import Accelerator
from torch import Tensor

from objectives import Selected
from rlzoo.rollout.base import Rollouts
from rlzoo.training.balance import Work, may_learn, processes_by_work
from rlzoo.training.collect import Collected, Share

Prompts = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Exchange:
    """The rows [N] of a batch, which this process and others hold, go to the processes `target` [N].

    Whatever is sent, all processes send together. Tensors are on the CPU.
    """

    collected: Collected
    target: Tensor
    accelerator: Accelerator

    @cached_property
    def source(self) -> Tensor:
        """[N] the process that holds each row."""
        here = torch.full_like(self.collected.rollouts.lengths, self.accelerator.process_index)
        return known(self.collected, self.accelerator, here)

    @cached_property
    def arriving(self) -> Tensor:
        """[m] the rows of the batch that this process is to have, ascending."""
        return (self.target == self.accelerator.process_index).nonzero()[:, 0]

    def of_rows(self, values: Tensor) -> Tensor:
        """[n] a value for each row that this process holds -> [m] for each that arrives."""
        return self.of_tokens(values[:, None], torch.ones(len(values), dtype=torch.long))[:, 0]

    def of_tokens(self, values: Tensor, lengths: Tensor) -> Tensor:
        """[n, t] values of the rows that this process holds -> [m, T] of those that arrive, T the longest of all.

        `lengths` [n] says how many values each row has; beyond them are zeros.
        """
        lengths, leaving = known(self.collected, self.accelerator, lengths), self.collected.share.batch
        going, coming = self.target[leaving].argsort(stable=True), self.source[self.arriving].argsort(stable=True)
        rows_sent, rows_received = leaving[going], self.arriving[coming]
        outgoing = values[going][_within(lengths[rows_sent], values.shape[1])].to(self.accelerator.device)
        incoming = outgoing.new_empty(int(lengths[rows_received].sum()))
        torch.distributed.all_to_all_single(
            incoming,
            outgoing,
            self._by_process(lengths[rows_received], self.source[rows_received]),
            self._by_process(lengths[rows_sent], self.target[rows_sent]),
        )
        result = values.new_zeros(len(coming), int(lengths.max()))
        result[_within(lengths[rows_received], result.shape[1])] = incoming.cpu()
        return result[coming.argsort()]

    def of_prompts(self, prompts: Prompts) -> list[list[int]]:
        """The prompt of each row that this process holds -> of each that arrives."""
        lengths = prompt_lengths(prompts)
        values = torch.zeros(len(prompts), max(lengths.tolist(), default=0), dtype=torch.long)
        values[_within(lengths, values.shape[1])] = torch.tensor(
            [token for prompt in prompts for token in prompt], dtype=torch.long
        )
        arrived = self.of_tokens(values, lengths).tolist(), self.of_rows(lengths).tolist()
        return [row[:length] for row, length in zip(*arrived, strict=True)]

    def _by_process(self, sizes: Tensor, process: Tensor) -> list[int]:
        """The sum of the sizes [k] of each process's items."""
        return [int(sizes[process == number].sum()) for number in range(self.accelerator.num_processes)]


def redistributed(
    collected: Collected, batch: Selected, minibatches: int, longest_tree: int, accelerator: Accelerator
) -> Collected:
    """The same rollouts, each row on the process that is to train it, so that all have nearly equal work.

    `batch` is the collected one, selected; `longest_tree` is that of the policy. There are several processes.
    """
    rollouts, group = collected.rollouts, batch.require("group", "balance").cpu()
    work = Work(
        group=group.tolist(),
        prompt_lengths=known(collected, accelerator, prompt_lengths(rollouts.prompt_tokens())).tolist(),
        lengths=known(collected, accelerator, rollouts.lengths).tolist(),
        learns=may_learn(batch).tolist(),
    )
    target = processes_by_work(work, minibatches, accelerator.num_processes, longest_tree)
    return _sent(collected, group, Exchange(collected, target, accelerator))


def _sent(collected: Collected, group: Tensor, exchange: Exchange) -> Collected:
    """All that is known of the rows of an exchange, whose groups are `group` [N]."""
    rollouts = collected.rollouts
    tensors = {
        name: exchange.of_tokens(values, rollouts.lengths) if values.dim() == 2 else exchange.of_rows(values)
        for name, values in rollouts.tensors().items()
    }
    tensors["prompt"] = group[exchange.arriving].unique(return_inverse=True)[1]

    def prompts(by_number: Prompts) -> Prompts:
        of_rows = exchange.of_prompts([by_number[number] for number in rollouts.prompt.tolist()])
        by_new_number = dict(zip(tensors["prompt"].tolist(), of_rows, strict=True))
        return [by_new_number[number] for number in sorted(by_new_number)]

    informed = collected.teacher_prompts
    return replace(
        collected,
        rollouts=Rollouts(prompts(rollouts.prompts), **tensors).widened(rollouts.mask.shape[1]),
        share=Share(torch.arange(len(exchange.arriving)), exchange.arriving),
        teacher_prompts=None if informed is None else prompts(informed),
    )


def known(collected: Collected, accelerator: Accelerator, values: Tensor) -> Tensor:
    """[n] a value for each row that this process holds -> [N] of all rows, on the CPU."""
    return collected.everywhere(accelerator, values.to(accelerator.device)).cpu()


def prompt_lengths(prompts: Prompts) -> Tensor:
    """[n] int64."""
    return torch.tensor([len(prompt) for prompt in prompts], dtype=torch.long)


def _within(lengths: Tensor, width: int) -> Tensor:
    """[n, width] bool: the first of each row."""
    return torch.arange(width) < lengths[:, None]
