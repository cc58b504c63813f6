"""Stale rollouts: what happens where sixteen mini-batches follow each other?

One of ten letters is right. The last mini-batch is learnt fifteen updates after its responses were sampled; a clip
leaves out what has moved already, other surrogates push on.

Start: 21 % right. Tuning (seeds 0 to 2): base 0.55, no ratio 0.31, a difference of 0.242 with a deviation of 0.036; the
two fresh arms 0.58 and 0.55.
"""

from rlzoo.lab.suite.experiment import Arm, Claim, Contrast, Experiment
from rlzoo.lab.suite.lookup import HALF_RIGHT, Lookup
from rlzoo.lab.suite.measures import accuracy_at_the_end

FRESH = {"train.minibatches_per_step": 2, "train.learning_rate": 5e-4, "train.steps": 24}
EXPERIMENT = Experiment(
    name="stale_rollouts",
    failure_mode="stale_rollouts",
    question="What is learnt from rollouts that are fifteen updates old?",
    task=Lookup,
    start=HALF_RIGHT,
    settings={
        "rollout.max_response_tokens": 4,
        "rollout.prompts_per_step": 64,
        "train.steps": 12,
        "train.minibatches_per_step": 16,
        "train.learning_rate": 2e-3,
    },
    arms={
        "base": Arm("grpo-kl"),
        "unclipped": Arm("grpo-kl+unclipped"),
        "cispo": Arm("grpo-kl+cispo"),
        "sequence_ratio": Arm("grpo-kl+sequence_ratio"),
        "no ratio": Arm("grpo-kl+reinforce"),
        "fresh": Arm("grpo-kl", FRESH),
        "fresh, no ratio": Arm("grpo-kl+reinforce", FRESH),
    },
    score="accuracy",
    unit="share of right answers to held-out problems",
    higher_is_better=True,
    measure=accuracy_at_the_end,
    positive=Contrast("no ratio", higher=False),
    negative=("fresh, no ratio", "fresh"),
    claims=[
        Claim(
            "unclipped",
            higher=False,
            text="Without the clip, stale rollouts make training worse.",
            paper="arXiv:1707.06347 section 6.1, table 1",
            published="average normalised score -0.39 without clipping or penalty, 0.82 with clip 0.2",
            smallest=0.05,
        ),
        Claim(
            "cispo",
            higher=True,
            text="A detached clipped weight learns more from stale rollouts than the clip.",
            paper="arXiv:2506.13585 section 3.1",
            published="DAPO's accuracy on AIME 2024 in half of the steps",
            smallest=0.05,
        ),
    ],
)
