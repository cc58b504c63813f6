"""Random rewards: what do clips do to the entropy where there is nothing to learn?

One of ten letters is right, but rewards are coins. Without a clip the policy has no direction. A bound below, on what
was punished, and a bound above, on what was rewarded, each stop one half of the moves.

Start: 1.16 nats. Tuning (seeds 0 to 2): base 0.72, with the entropy bonus 1.98, a difference of 1.26 with a deviation
of 0.07.
"""

from rlzoo.lab.suite.experiment import Arm, Claim, Contrast, Experiment
from rlzoo.lab.suite.lookup import HALF_RIGHT, Lookup
from rlzoo.lab.suite.measures import accuracy_of_the_last_steps

FRESH = {"train.minibatches_per_step": 2, "train.learning_rate": 5e-4}
EXPERIMENT = Experiment(
    name="random_rewards",
    failure_mode="entropy_collapse",
    question="What do clips do to the entropy where rewards are coins?",
    task=Lookup,
    start=HALF_RIGHT,
    settings={
        "rollout.max_response_tokens": 4,
        "task.options.flip": 0.5,
        "train.minibatches_per_step": 8,
    },
    arms={
        "base": Arm("grpo-kl"),
        "unclipped": Arm("grpo-kl+unclipped"),
        "clipped below": Arm("grpo-kl+clip(low=0.2)+clip_higher(high=1000)"),
        "clipped above": Arm("grpo-kl+clip(low=1)+clip_higher(high=0.2)"),
        "entropy bonus": Arm("grpo-kl+entropy_bonus(coefficient=0.1)"),
        "fresh": Arm("grpo-kl", FRESH),
        "fresh, unclipped": Arm("grpo-kl+unclipped", FRESH),
    },
    score="entropy",
    unit="nats per token in the last five steps",
    higher_is_better=True,
    measure=accuracy_of_the_last_steps,
    positive=Contrast("entropy bonus", higher=True),
    negative=("fresh, unclipped", "fresh"),
    claims=[
        Claim(
            "clipped below",
            higher=True,
            against="unclipped",
            text="The lower clip alone raises entropy.",
            paper="arXiv:2509.26114 section 3",
            published="entropy rises under random rewards, in curves",
            smallest=0.03,
        ),
        Claim(
            "clipped above",
            higher=False,
            against="unclipped",
            text="The upper clip alone lowers entropy.",
            paper="arXiv:2509.26114 section 3",
            published="entropy falls under random rewards, in curves",
            smallest=0.03,
        ),
        Claim(
            "base",
            higher=False,
            against="unclipped",
            text="With both bounds at 0.2 the upper one prevails and entropy falls.",
            paper="arXiv:2509.26114 section 3",
            published="an overall loss of entropy even with purely random rewards",
            smallest=0.03,
        ),
    ],
)
