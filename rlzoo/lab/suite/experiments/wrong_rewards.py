"""Wrong rewards: what is learnt where one reward in three is wrong?

One of ten letters is right; a coin that nobody can foresee turns a reward over. Division by the deviation of a group
makes the single wrong reward of a nearly solved group the largest advantage of all.

Start: 21 % right. Mended once: with one wrong reward in five ten seeds did not tell true rewards from base (0.146, with
a deviation of 0.133). Tuning (seeds 20 to 25), 0.35 of the rewards wrong: base 0.378, true rewards 0.574, a difference
of 0.196 with a deviation of 0.082.
"""

from rlzoo.lab.suite.experiment import Arm, Claim, Contrast, Experiment
from rlzoo.lab.suite.lookup import HALF_RIGHT, Lookup
from rlzoo.lab.suite.measures import accuracy_at_the_end

TRUE = {"task.options.flip": 0.0}
EXPERIMENT = Experiment(
    name="wrong_rewards",
    failure_mode="noisy_rewards",
    question="What is learnt where one reward in three is wrong?",
    task=Lookup,
    start=HALF_RIGHT,
    first_seed=1200,
    settings={
        "rollout.max_response_tokens": 4,
        "task.options.flip": 0.35,
        "train.steps": 25,
        "train.learning_rate": 2e-3,
    },
    arms={
        "base": Arm("grpo-kl"),
        "group_center": Arm("grpo-kl+group_center"),
        "maxrl": Arm("grpo-kl+maxrl"),
        "larger groups": Arm("grpo-kl", {"rollout.responses_per_prompt": 16, "rollout.prompts_per_step": 16}),
        "true rewards": Arm("grpo-kl", TRUE),
        "true rewards, group_center": Arm("grpo-kl+group_center", TRUE),
    },
    score="accuracy",
    unit="share of right answers to held-out problems, by the truth",
    higher_is_better=True,
    measure=accuracy_at_the_end,
    positive=Contrast("true rewards", higher=True),
    negative=("true rewards, group_center", "true rewards"),
    claims=[
        Claim(
            "group_center",
            higher=True,
            text="Rewards that are centred but not divided by the group's deviation suffer less from wrong ones.",
            paper="arXiv:2503.20783 section 3.1",
            published="the division biases towards prompts that are too easy or too hard; no number for noise",
            smallest=0.05,
        ),
        Claim(
            "maxrl",
            higher=False,
            text="Dividing by the group's success makes single wrong rewards of unsolved groups count most.",
            paper="arXiv:2602.02710",
            published="nothing on wrong rewards; its weight of a lone success is the group's size",
            smallest=0.05,
        ),
    ],
)
