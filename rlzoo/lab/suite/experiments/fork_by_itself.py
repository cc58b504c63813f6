"""A fork by itself: does 20-Entropy learn to think where the decision is the least certain token?

As in `fork_beside_guesses`, but a guess is always `hst`: the model is certain of it, and it is right once in eight by
the same coin. So the fork is the only token that is undecided, and a fifth of the tokens holds nearly all forks.

Start: 19 % right. Tuning (seeds 0 to 2): base 0.594, without the fork 0.197, a difference of 0.397 with a deviation of
0.039.
"""

import random
from dataclasses import dataclass, replace

from rlzoo.lab.suite.experiments.fork_beside_guesses import EXPERIMENT as BESIDE_GUESSES
from rlzoo.lab.suite.experiments.fork_beside_guesses import Guesses


@dataclass(frozen=True)
class Fixed(Guesses):
    """Guesses that are always the same."""

    def guess(self, rng: random.Random) -> str:
        """The first two letters."""
        return self.letters[:2]


EXPERIMENT = replace(
    BESIDE_GUESSES,
    name="fork_by_itself",
    question="Does 20-Entropy learn to think where the decision to think is the least certain token?",
    task=Fixed,
)
