"""A micro-language whose responses are all enumerated, and policies over it that are tables of logits.

P prompts, R responses, T positions, V symbols, the end among them. A policy is a table [P, T, V + 1, V] in float64: the
logits of the next symbol for a prompt, a position and the symbol before (V stands for none). Whatever is asked of a
policy is a sum over all R responses, and so has no sampling error.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import torch
from torch import Tensor


@dataclass(frozen=True)
class Language:
    """All responses of up to `limit` symbols: letters and then the end, or `limit` letters, cut off."""

    letters: int
    limit: int

    @property
    def vocabulary(self) -> int:
        """The letters and the end, which is the last symbol."""
        return self.letters + 1

    @cached_property
    def symbols(self) -> Tensor:
        """[R, T] int; zeros behind the end."""
        end = (self.letters,)
        finished = [(*word, *end) for n in range(self.limit) for word in product(range(self.letters), repeat=n)]
        cut = list(product(range(self.letters), repeat=self.limit))
        return torch.tensor([word + (0,) * (self.limit - len(word)) for word in (*finished, *cut)])

    @cached_property
    def length(self) -> Tensor:
        """[R] int, the end included."""
        ended = (self.symbols == self.letters).any(1)
        return torch.where(ended, (self.symbols == self.letters).int().argmax(1) + 1, self.limit)

    @cached_property
    def mask(self) -> Tensor:
        """[R, T] bool: symbols that are there."""
        return torch.arange(self.limit) < self.length[:, None]

    @cached_property
    def truncated(self) -> Tensor:
        """[R] bool: cut off at the limit."""
        return ~(self.symbols == self.letters).any(1)

    @cached_property
    def previous(self) -> Tensor:
        """[R, T] int: the symbol before each; V at the start."""
        start = torch.full((len(self.symbols), 1), self.vocabulary)
        return torch.cat([start, self.symbols[:, :-1]], 1)

    def log_probs(self, table: Tensor) -> Tensor:
        """[P, R]: the log-prob of every response to every prompt, with the table's gradient."""
        each, finished = table.log_softmax(-1), []
        prefix, last = table.new_zeros(len(table), 1), torch.tensor([self.vocabulary])
        for position in range(self.limit):
            onward = prefix[:, :, None] + each[:, position, last]
            finished.append(onward[..., self.letters])
            prefix, last = onward[..., : self.letters].flatten(1), torch.arange(self.letters).repeat(len(last))
        return torch.cat([*finished, prefix], 1)

    def visits(self, table: Tensor) -> Tensor:
        """[P, T, V + 1]: the probability that a response comes to each place."""
        probability = table.softmax(-1)
        here = probability.new_zeros(table.shape[:-1])
        here[:, 0, self.vocabulary] = 1.0
        for position in range(self.limit - 1):
            onward = (here[:, position, :, None] * probability[:, position]).sum(1)
            here[:, position + 1, : self.letters] = onward[:, : self.letters]
        return here

    def natural(self, table: Tensor, direction: Tensor) -> Tensor:
        """[..., D] from a direction [..., P, T, V + 1, V]: coordinates in which length is change of the policy.

        A step h along it changes the policy by KL(old, new) = (h |natural|)^2 of a response, to second order and as a
        mean over prompts: half the Fisher information.
        """
        probability = table.softmax(-1)
        centred = direction - (probability * direction).sum(-1, keepdim=True)
        weight = (0.5 / len(table)) * self.visits(table)[..., None] * probability
        return (weight.sqrt() * centred).flatten(-4)
