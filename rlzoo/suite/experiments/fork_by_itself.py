"""A fork by itself: does 20-Entropy learn to think where the decision is the least certain token?

As in `fork_beside_guesses`, but a guess is always `hst`: the model is certain of it, and it is right once in eight by
the same coin. So the fork is the only token that is undecided, and a fifth of the tokens holds nearly all forks.

Start: 19 % right. Tuning (seeds 0 to 2): base 0.594, without the fork 0.197, a difference of 0.397 with a deviation of
0.039.
"""

import random
from dataclasses import dataclass

from rlzoo.suite.experiment import Contrast, Experiment
from rlzoo.suite.experiments.fork_beside_guesses import ARMS, CLAIMS, Guesses
from rlzoo.suite.measures import accuracy_of_the_last_steps


@dataclass(frozen=True)
class Fixed(Guesses):
    """Guesses that are always the same."""

    def guess(self, rng: random.Random) -> str:
        """The first two letters."""
        return self.letters[:2]


EXPERIMENT = Experiment(
    name="fork_by_itself",
    trouble="credit",
    question="Does 20-Entropy learn to think where the decision to think is the least certain token?",
    task=Fixed,
    settings={"rollout.max_response_tokens": 12},
    arms=ARMS,
    score="accuracy",
    unit="share of right answers in the last five steps",
    higher_is_better=True,
    measure=accuracy_of_the_last_steps,
    positive=Contrast("all but the fork", higher=False),
    negative=("random rewards, top_entropy", "random rewards"),
    claims=CLAIMS,
)
