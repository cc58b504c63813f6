"""A fork beside guesses: does 20-Entropy learn to think where guessed letters are less certain than the decision?

A response is `(abcd)`, steps that are right, or `h` and two letters of eight at random, a guess that is right once in
eight by a coin that nobody can foresee. One response in ten has steps. So one token decides, the first, and its entropy
is 0.33 nats; that of each guessed letter is 2.08, and these are more than a fifth of all tokens.

`fork_by_itself` is the same with guesses that are always the same two letters. The pair was found on sums: with four
digits and few demonstrations with steps 20-Entropy never updated the fork and did not learn, with three digits it was
the quickest.

Start: 20 % right. Tuning (seeds 0 to 2): base 0.678, without the fork 0.216, a difference of 0.462 with a deviation of
0.028.
"""

import random
from dataclasses import dataclass

from rlzoo.lab.suite.experiment import Arm, Claim, Contrast, Experiment
from rlzoo.lab.suite.measures import accuracy_of_the_last_steps
from rlzoo.lab.suite.micro import MicroTask, coin
from rlzoo.tasks.base import Problem

STEPS = "(abcd)"
CHANCE = 1 / 8
"""That a guess is right."""


@dataclass(frozen=True)
class Guesses(MicroTask):
    """`(abcd)` is right; `h` and two letters are right by chance. `careful` is the share of steps."""

    careful: float = 0.1
    slip: float = 0.01
    letters = "stuvwxyz"
    symbols = STEPS + "h" + letters

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """Each letter of the steps is any other one at the rate `slip`."""
        if rng.random() < self.careful:
            return "".join(rng.choice(STEPS[1:-1]) if rng.random() < self.slip else letter for letter in STEPS)
        return "h" + self.guess(rng)

    def guess(self, rng: random.Random) -> str:
        """Two letters, each any of eight."""
        return "".join(rng.choices(self.letters, k=2))

    @staticmethod
    def right(problem: Problem, response: str) -> bool:
        """Steps without a slip, or a guess, by the coin."""
        return response == STEPS or (response.startswith("h") and coin("guess", problem.id, response) < CHANCE)


COIN = {"task.options.flip": 0.5, "train.learning_rate": 1e-4}
TOKENS = "grpo-kl+token_mean"
EXPERIMENT = Experiment(
    name="fork_beside_guesses",
    failure_mode="credit",
    question="Does 20-Entropy learn to think where guesses are less certain than the decision to think?",
    task=Guesses,
    settings={"rollout.max_response_tokens": 12},
    arms={
        "base": Arm(TOKENS),
        "top_entropy": Arm(f"{TOKENS}+top_entropy"),
        "the fork alone": Arm(f"{TOKENS}+rlzoo.lab.suite.oracles:first_token"),
        "all but the fork": Arm(f"{TOKENS}+rlzoo.lab.suite.oracles:first_token(others=true)"),
        "seq_mean": Arm("grpo-kl"),
        "random rewards": Arm(TOKENS, COIN),
        "random rewards, top_entropy": Arm(f"{TOKENS}+top_entropy", COIN),
    },
    score="accuracy",
    unit="share of right answers in the last five steps",
    higher_is_better=True,
    measure=accuracy_of_the_last_steps,
    positive=Contrast("all but the fork", higher=False),
    negative=("random rewards, top_entropy", "random rewards"),
    claims=[
        Claim(
            "top_entropy",
            higher=True,
            text="Training on the fifth of the tokens with the highest entropy is better than training on all.",
            paper="arXiv:2506.01939 abstract",
            published="about the same on Qwen3-8B, better on Qwen3-32B: AIME 2024 +7.71, AIME 2025 +11.04",
            smallest=0.05,
        ),
        Claim(
            "seq_mean",
            higher=False,
            text="A mean per response gives the tokens of long responses less weight than a mean over all tokens.",
            paper="arXiv:2503.14476 section 3.3",
            published="the token mean adds 1 point on AIME 2024 (41 to 42), and length grows in a healthy way",
            smallest=0.05,
        ),
    ],
)
