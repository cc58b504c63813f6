"""Many epochs: what stops the policy from running away on rollouts that it passes over sixteen times?

One of ten letters is right. From the second pass on, the policy is another one than that which sampled. A surrogate
without a ratio, or with one that nothing bounds, goes on pushing what was pushed already.

Start: 21 % right. Tuning (seeds 0 to 2): base 0.48, no ratio 0.17, a difference of 0.310 with a deviation of 0.127; the
two arms of two epochs 0.556 and 0.543.
"""

from rlzoo.lab.suite.experiment import Arm, Claim, Contrast, Experiment
from rlzoo.lab.suite.lookup import HALF_RIGHT, Lookup
from rlzoo.lab.suite.measures import accuracy_at_the_end

FEW = {"train.learning_rate": 5e-4, "train.steps": 24}
EXPERIMENT = Experiment(
    name="many_epochs",
    failure_mode="many_epochs",
    question="What survives sixteen passes over the same rollouts?",
    task=Lookup,
    start=HALF_RIGHT,
    settings={
        "rollout.max_response_tokens": 4,
        "rollout.prompts_per_step": 16,
        "train.steps": 8,
        "train.learning_rate": 2e-3,
    },
    arms={
        "base": Arm("grpo-kl+epochs(count=16)"),
        "unclipped": Arm("grpo-kl+unclipped+epochs(count=16)"),
        "cispo": Arm("grpo-kl+cispo+epochs(count=16)"),
        "sequence_ratio": Arm("grpo-kl+sequence_ratio+epochs(count=16)"),
        "no ratio": Arm("grpo-kl+reinforce+epochs(count=16)"),
        "two epochs": Arm("grpo-kl+epochs(count=2)", FEW),
        "two epochs, no ratio": Arm("grpo-kl+reinforce+epochs(count=2)", FEW),
    },
    score="accuracy",
    unit="share of right answers to held-out problems",
    higher_is_better=True,
    measure=accuracy_at_the_end,
    positive=Contrast("no ratio", higher=False),
    negative=("two epochs, no ratio", "two epochs"),
    added="+epochs(count=16)",
    claims=[
        Claim(
            "unclipped",
            higher=False,
            text="Without the clip, many epochs on the same rollouts destroy the policy.",
            paper="arXiv:1707.06347 section 6.1, table 1",
            published="average normalised score -0.39 without clipping or penalty, 0.82 with clip 0.2",
            smallest=0.1,
        ),
        Claim(
            "cispo",
            higher=True,
            text="A detached clipped weight learns more from the same rollouts than the clip.",
            paper="arXiv:2506.13585 section 3.1",
            published="DAPO's accuracy on AIME 2024 in half of the steps",
            smallest=0.05,
        ),
    ],
)
