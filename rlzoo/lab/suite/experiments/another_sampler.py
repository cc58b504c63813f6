"""Another sampler: what is learnt where the engine samples something else than the policy?

One of ten letters is right. The engine adds a fixed offset to the logit of every token, normal with a standard
deviation of 3 nats, so that some right letters are hardly ever sampled and others hardly ever missed. Whoever takes its
samples for the policy's own stops learning a letter once the engine writes it. Evaluation samples the policy itself.

Start: 21 % right. Mended once: with 2 nats and the policy itself as the control, ten seeds did not tell the two apart
(0.041, with a deviation of 0.050). Tuning (seeds 10 to 15), 3 nats: base 0.476, a slight offset 0.633, a difference of
0.157 with a deviation of 0.045.
"""

from rlzoo.lab.suite.experiment import Arm, Claim, Contrast, Experiment
from rlzoo.lab.suite.lookup import HALF_RIGHT, Lookup
from rlzoo.lab.suite.measures import accuracy_at_the_end

SLIGHT = {"rollout.noise": 0.05}
EXPERIMENT = Experiment(
    name="another_sampler",
    failure_mode="engine_mismatch",
    question="What is learnt from an engine that samples something else than the policy?",
    task=Lookup,
    start=HALF_RIGHT,
    first_seed=1200,
    settings={
        "rollout.max_response_tokens": 4,
        "rollout.noise": 3.0,
        "train.steps": 40,
        "train.learning_rate": 2e-3,
    },
    arms={
        "base": Arm("grpo-kl"),
        "truncated correction": Arm("grpo-kl+sampler_correction"),
        "icepop": Arm("grpo-kl+icepop"),
        "sampler_ratio": Arm("grpo-kl+sampler_ratio"),
        "the policy itself": Arm("grpo-kl", {"rollout.noise": 1e-6}),
        "slight": Arm("grpo-kl", SLIGHT),
        "slight, truncated correction": Arm("grpo-kl+sampler_correction", SLIGHT),
    },
    score="accuracy",
    unit="share of right answers of the policy itself to held-out problems",
    higher_is_better=True,
    measure=accuracy_at_the_end,
    positive=Contrast("slight", higher=True),
    negative=("slight, truncated correction", "slight"),
    claims=[
        Claim(
            "truncated correction",
            higher=True,
            text="Weighing tokens by the truncated ratio of policy to engine repairs the mismatch.",
            paper="Yao et al. 2025, Your Efficient RL Framework Secretly Brings You Off-Policy RL Training",
            published="training as with an engine that agrees, in curves",
            smallest=0.03,
        ),
        Claim(
            "icepop",
            higher=True,
            text="Leaving out tokens on which policy and engine differ stabilises training.",
            paper="arXiv:2510.18855",
            published="stable where the uncorrected run collapses, in curves",
            smallest=0.03,
        ),
    ],
)
