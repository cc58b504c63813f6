"""Nothing to learn from: what do prompts cost whose responses are all right or all wrong?

One of ten letters is right, but for four prompts in five, of which half are right whatever is answered and half wrong.
So four fifths of the groups have no advantage. Sampling until the batch is full of groups that differ gives more per
update, for as many more rollouts; the arm `as many rollouts` samples five times as many prompts instead and leaves the
dead groups in. Adam hides the scale of a gradient that four fifths of the groups do not enter.

Start: 18 % right. Tuning (seeds 0 to 2): base 0.25, all alive 0.45, a difference of 0.193 with a deviation of 0.047.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rlzoo.lab.suite.experiment import Arm, Claim, Contrast, Experiment
from rlzoo.lab.suite.lookup import HALF_RIGHT, Lookup, right_letter
from rlzoo.lab.suite.measures import Trained, accuracy_at_the_end
from rlzoo.lab.suite.micro import coin
from rlzoo.tasks.base import Problem


@dataclass(frozen=True)
class Mixed(Lookup):
    """Letters of which only those to `live` of the prompts are judged; to the others all answers are as good."""

    live: float = 0.2

    def problem(self, number: int) -> Problem:
        """Live, or right or wrong whatever is answered."""
        made, lot = super().problem(number), coin("live", number)
        kind = "live" if lot < self.live else "right" if lot < (1 + self.live) / 2 else "wrong"
        return Problem(made.id, made.prompt, "", {"kind": kind})

    @staticmethod
    def right(problem: Problem, response: str) -> bool:
        """By the letter if the prompt is live."""
        kind = problem.data["kind"]
        return response == right_letter(problem) if kind == "live" else kind == "right"

    @cached_property
    def held_out(self) -> Sequence[Problem]:
        """The live ones."""
        return [problem for problem in self._side(held_out=True) if problem.data["kind"] == "live"][:512]


def accuracy_and_rollouts(cell: Trained) -> Mapping[str, float]:
    """The share of right answers to held-out live prompts, and how many thousand responses were sampled for it."""
    sampled = sum(len(part.texts) for part in cell.rollouts) / 1000
    accuracy = accuracy_at_the_end(cell)["accuracy"]
    return {"accuracy": accuracy, "thousand_rollouts": sampled}


ALIVE = {"task.options.live": 1.0}
EXPERIMENT = Experiment(
    name="nothing_to_learn_from",
    failure_mode="dead_groups",
    question="What do prompts cost whose responses are all right or all wrong?",
    task=Mixed,
    start=HALF_RIGHT,
    settings={"rollout.max_response_tokens": 4, "rollout.max_refills": 60, "train.steps": 12},
    arms={
        "base": Arm("grpo-kl"),
        "dynamic_sampling": Arm("grpo-kl+dynamic_sampling"),
        "as many rollouts": Arm("grpo-kl", {"rollout.prompts_per_step": 160}),
        "all alive": Arm("grpo-kl", ALIVE),
        "all alive, dynamic_sampling": Arm("grpo-kl+dynamic_sampling", ALIVE),
    },
    score="accuracy",
    unit="share of right answers to held-out prompts that can be learnt, after as many updates",
    higher_is_better=True,
    measure=accuracy_and_rollouts,
    positive=Contrast("all alive", higher=True),
    negative=("all alive, dynamic_sampling", "all alive"),
    claims=[
        Claim(
            "dynamic_sampling",
            higher=True,
            text="Sampling until every group has right and wrong answers learns more from each update.",
            paper="arXiv:2503.14476 section 3.2, table 1",
            published="AIME 2024 from 42 to 50",
            smallest=0.05,
        ),
        Claim(
            "dynamic_sampling",
            higher=True,
            against="as many rollouts",
            text="Sampling until every group has right and wrong answers learns more from as many rollouts.",
            paper="arXiv:2503.14476 section 4.2, figure 6",
            published="the same accuracy in fewer steps, and no more time in all",
            smallest=0.05,
        ),
    ],
)
