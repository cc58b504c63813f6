"""For each trouble: where the map shows it, which settings help besides objectives, what to watch, what is unknown."""

from collections.abc import Mapping
from dataclasses import dataclass

QUANTITIES: Mapping[str, str] = {
    "cosine": "cosine with the policy gradient",
    "signal_to_noise": "signal to noise of a batch",
    "rare": "share of the gradient from the least probable quarter of tokens",
    "reward": "expected reward",
    "pass_8": "pass@8",
    "entropy": "entropy of responses (nats)",
    "length_wrong": "length of wrong responses",
    "distinct_right": "different right responses among 8",
    "log_rare_right": "log-probability of rare right responses",
}
"""Of the map -> what it is."""


@dataclass(frozen=True)
class Setting:
    """A key of an experiment that helps."""

    word: str
    """As it is typed, beside whatever the experiment has."""
    effect: str
    """What it does, and what it costs."""


@dataclass(frozen=True)
class Advice:
    """What is said of a trouble besides the parts that address it."""

    regime: str
    """Of the map."""
    quantity: str
    """Of `QUANTITIES`: what tells whether a part helps."""
    more: bool
    """Whether more of it helps."""
    unknown: str
    """What has not been measured here, in a sentence."""
    watch: tuple[str, ...]
    """Metrics of a run that show the trouble."""
    settings: tuple[Setting, ...] = ()
    expressions: tuple[str, ...] = ()
    """Objectives that help although none of their parts is about it."""


_MORE_RESPONSES = Setting(
    "rollout.responses_per_prompt=16", "gives more groups both right and wrong responses, for twice the rollouts"
)
_ONE_UPDATE = Setting("train.minibatches_per_step=1", "makes one update of each step's rollouts, so that none is stale")
_FLOAT = Setting("model.precision=float32", "keeps the digits that bfloat16 rounds away, for twice the memory")

ADVICE: Mapping[str, Advice] = {
    "zero_loss": Advice(
        "on_policy",
        "reward",
        True,
        "The loss of a run is no measure of its progress; reward and evaluation are.",
        ("loss", "gradient_norm", "groups_without_signal"),
        (_MORE_RESPONSES,),
        ("grpo-kl",),
    ),
    "dead_groups": Advice(
        "hard",
        "reward",
        True,
        "What groups that are wrong as a whole can teach a large model is not known from here.",
        ("groups_without_signal", "gradient_norm"),
        (
            _MORE_RESPONSES,
            Setting("rollout.temperature=1.2", "makes the responses of a group differ more, and each a little worse"),
        ),
    ),
    "hard_problems": Advice(
        "hard",
        "pass_8",
        True,
        "No part makes right answers that the policy never samples; whether easier prompts would is not measured.",
        ("accuracy", "groups_without_signal"),
        (_MORE_RESPONSES,),
    ),
    "exploration": Advice(
        "stale",
        "log_rare_right",
        True,
        "Whether what is found by exploring lasts on a large model is not measured here.",
        ("entropy", "groups_without_signal"),
        (Setting("rollout.temperature=1.2", "samples improbable tokens more often"), _MORE_RESPONSES),
    ),
    "diversity": Advice(
        "on_policy",
        "distinct_right",
        True,
        "The map follows one update; whether diversity lasts over hundreds is for training to tell.",
        ("entropy",),
        (_MORE_RESPONSES,),
    ),
    "entropy_collapse": Advice(
        "stale",
        "entropy",
        True,
        "Whether more entropy means better answers is not known: on the boards here nothing that raises it is better.",
        ("entropy",),
        (
            Setting("train.learning_rate=5e-7", "slows the fall of entropy, and the learning with it"),
            Setting("rollout.temperature=1.2", "samples improbable tokens more often"),
        ),
    ),
    "entropy_explosion": Advice(
        "stale",
        "entropy",
        False,
        "The language of the map has no nonsense to drift into; that is for training to tell.",
        ("entropy", "gradient_norm", "sampler/kl"),
        (
            Setting("train.learning_rate=5e-7", "takes shorter steps"),
            Setting("rollout.top_p=0.95", "keeps the least probable tokens out of the rollouts"),
        ),
    ),
    "length_growth": Advice(
        "long",
        "length_wrong",
        False,
        "Reasoning that needs length grows for that reason as well; no measurement here tells the two apart.",
        ("length", "truncated"),
    ),
    "truncation": Advice(
        "long",
        "length_wrong",
        False,
        "Where the limit should be for a model and a task is not known from here.",
        ("truncated", "length"),
        (
            Setting("rollout.max_response_tokens=4096", "raises the limit, for more memory and time"),
            Setting("task.grade_truncated=true", "grades what was written before the limit"),
        ),
    ),
    "spurious_tokens": Advice(
        "on_policy",
        "rare",
        False,
        "Which tokens of a real model are spurious nobody knows; here they are planted or defined by probability.",
        ("gradient_norm", "entropy"),
    ),
    "credit": Advice(
        "long",
        "signal_to_noise",
        True,
        "Which tokens decide an answer is known in made-up tasks alone.",
        ("gradient_norm",),
    ),
    "mixed_difficulty": Advice(
        "on_policy",
        "cosine",
        True,
        "Whether the bias hurts depends on the mixture of prompts, which is yours.",
        ("accuracy", "groups_without_signal"),
    ),
    "few_responses": Advice(
        "small_groups",
        "signal_to_noise",
        True,
        "How many prompts replace how many responses at your cost is not measured.",
        ("gradient_norm", "groups_without_signal"),
        (
            _MORE_RESPONSES,
            Setting("rollout.prompts_per_step=64", "averages over more prompts, for more rollouts"),
        ),
    ),
    "stale_rollouts": Advice(
        "stale",
        "cosine",
        True,
        "Rollouts that are many steps old, as with asynchronous trainers, are not measured here.",
        ("touched/clip/tokens", "gradient_norm"),
        (_ONE_UPDATE,),
    ),
    "many_epochs": Advice(
        "stale",
        "cosine",
        True,
        "How many epochs a model bears before it gets worse depends on its rate of learning.",
        ("touched/clip/tokens", "entropy"),
        (_ONE_UPDATE, Setting("train.learning_rate=5e-7", "moves the policy less with each update")),
    ),
    "engine_mismatch": Advice(
        "mismatched",
        "cosine",
        True,
        "The map's mismatch is random; that of an engine has a pattern, which is its own.",
        ("sampler/kl", "sampler/difference", "sampler/largest_difference"),
        (
            _FLOAT,
            Setting("rollout.top_p=1", "makes both distributions those of the whole vocabulary"),
            Setting(
                "rollout.old_logp=engine",
                "takes the ratio to what the engine reported, which weighs the mismatch as far as the clip lets it; "
                "no forward scores the rollouts, and rlzoo fit says what that saves",
            ),
        ),
    ),
    "precision": Advice(
        "mismatched",
        "cosine",
        True,
        "The map has float64 alone; what bfloat16 costs a large model is not measured here.",
        ("sampler/difference", "updates_skipped"),
        (_FLOAT,),
    ),
    "mixture_of_experts": Advice(
        "mismatched",
        "cosine",
        True,
        "No mixture of experts was trained here; the map's mismatch and stale rollouts stand for its symptoms.",
        ("sampler/kl", "sampler/largest_difference"),
        (_ONE_UPDATE,),
    ),
    "noisy_rewards": Advice(
        "wrong_rewards",
        "signal_to_noise",
        True,
        "A reward that is wrong in a pattern which a policy can find is not measured here; mend it first.",
        ("accuracy", "reference/kl"),
        (_MORE_RESPONSES,),
    ),
    "memory": Advice(
        "on_policy",
        "cosine",
        True,
        "What your model takes is what rlzoo fit predicts; no run here was larger than 135 million parameters.",
        (),
        (
            Setting("model.gradient_checkpointing=true", "calculates activations again, for about a third more time"),
            Setting("model.lora.rank=32", "trains adapters: their gradients and optimiser alone, and no second model"),
            Setting("train.tokens_per_micro_batch=4096", "splits an update into smaller passes; its gradient stays"),
            Setting("model.precision=bfloat16", "halves weights and activations, and rounds log-probs"),
        ),
        ("grpo-kl", "justrl"),
    ),
}
"""By tag of a trouble."""
